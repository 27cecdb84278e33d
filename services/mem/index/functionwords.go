package index

import (
	"strings"
	"sync"
)

// The function words of a language, folded. They say how a text is built, not what it
// is about. English includes the words of asking, such as "tell" and "please".
const (
	englishWords = "a an the this that these those some any each every either neither no not nor and or but if " +
		"then than so as at by for from in into of off on onto out over to under up down with " +
		"without about above after again against before below between during through until while i " +
		"me my mine myself we us our ours ourselves you your yours yourself yourselves he him his " +
		"himself she her hers herself it its itself they them their theirs themselves one am is are " +
		"was were be been being do does did doing done have has had having will would shall should " +
		"can could may might must ought cannot don didn doesn isn aren wasn weren hasn haven hadn " +
		"won wouldn shouldn couldn t d m s re ve ll who whom whose which what when where why how " +
		"there here also too very just only own same such more most other both all " +
		"tell remind explain please hey hi hello remember know want help show thanks thank ok okay " +
		"let get got say said ask asked asking"

	germanWords = "aber alle allem allen aller alles als am an ander andere anderen auch auf aus bei beim bin " +
		"bis bist da damit dann das dass dein deine deinen dem den denn der des dessen dich die " +
		"dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen einer " +
		"eines er es etwas euch euer eure fur gegen gewesen habe haben hast hat hatte hatten hier " +
		"hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jedem jeden " +
		"jeder jedes jener jetzt kann kannst kein keine keinen konnen konnte machen man mein meine " +
		"meinem meinen meiner mich mir mit muss mussen nach nein nicht nichts noch nun nur ob oder " +
		"ohne sehr sein seine seinem seinen seiner seit sich sie sind so soll sollen sollte sondern " +
		"uber um und uns unser unsere unter vom von vor wann war waren warum was weil welche " +
		"welchem welchen welcher welches wem wen wenn wer werde werden wessen wie wieder will wir " +
		"wird wirst wo woher wohin wollen worden wurde wurden zu zum zur zwischen bitte sag sage " +
		"sagte erinnere erklare hallo danke weisst weiss gib zeig zeige hilf"

	spanishWords = "a al algo ante antes asi aun aunque cada como con contra cual cuales cuando cuanto de del " +
		"desde donde dos durante e el ella ellas ellos en entre era eran eres es esa esas ese eso " +
		"esos esta estaba estan estar estas este esto estos estoy fue fueron ha habia han has hasta " +
		"hay he la las le les lo los mas me mi mis mucho muy nada ni no nos nosotros o otra otro " +
		"para pero poco por porque que quien quienes se sea ser si sido sin sobre son soy su sus " +
		"tal tambien te tengo ti tiene tienen todo todos tu tus un una uno unos usted ustedes y ya " +
		"yo puedes puede dime explica recuerda recuerdas gracias hola"

	frenchWords = "ai ait alors as au aussi aux avait avant avec avez avoir avons c ce ceci cela celle celui " +
		"ces cet cette ceux chez comment d dans de depuis des donc dont du elle elles en encore " +
		"entre es est et etait etaient ete etes etre eu fait faire font il ils j je l la le les " +
		"leur leurs lui m ma mais me mes moi mon n ne ni nos notre nous on ont ou par pas plus pour " +
		"pourquoi puis qu quand que quel quelle quelles quels qui quoi s sa sans se sera ses si son " +
		"sont sous suis sur t ta te tes toi ton tous tout toute toutes tres tu un une va vers vos " +
		"votre vous y peux peut pouvez dis dites explique expliquez rappelle merci salut bonjour"
)

// languages is the number of lists of function words: English, German, Spanish and
// French, in the order in which they win ties.
const languages = 4

// functionWords maps each function word to the lists that have it, a bit for each.
var functionWords = sync.OnceValue(func() map[string]uint8 {
	lists := map[string]uint8{}
	for i, list := range [languages]string{englishWords, germanWords, spanishWords, frenchWords} {
		for w := range strings.FieldsSeq(list) {
			lists[w] |= 1 << i
		}
	}
	return lists
})

// functionList returns the bit of the list that applies to a query: the one that has
// most of its words. A list other than English needs two distinct words.
func functionList(words []string) (bit uint8) {
	var count, distinct [languages]int
	seen := map[string]bool{}
	for _, w := range words {
		for i := range languages {
			if functionWords()[w]&(1<<i) == 0 {
				continue
			}
			count[i]++
			if !seen[w] {
				distinct[i]++
			}
		}
		seen[w] = true
	}
	best := 0
	for i := range languages {
		if count[i] > count[best] {
			best = i
		}
	}
	if distinct[best] < 2 {
		best = 0
	}
	return 1 << best
}
