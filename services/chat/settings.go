package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"zino/proto"
)

// providers are the kinds of providers, as of capabilities of rtr.
var providers = []string{"anthropic", "openai", "gemini", "openrouter", "ollama", "offline"}

var efforts = []string{"off", "low", "medium", "high", "max"}

// unset is the argument that takes a setting back.
const unset = "default"

// setModel sets the model of the next turns, or lets the user pick one.
func (c *chat) setModel(args string) {
	await(c, &query{what: "Asking for the models"}, func(ctx context.Context) (proto.ModelList, error) {
		return c.listModels(ctx)
	}, func(list proto.ModelList, err error) {
		switch {
		case args == "" && err != nil:
			c.fail(errorOf(err))
		case args == "":
			c.pickModel(list)
		default:
			c.useModelNamed(args, list.Models)
		}
	})
}

// listModels asks for the models of all connected providers, and keeps them for
// completion.
func (c *chat) listModels(ctx context.Context) (proto.ModelList, error) {
	list, err := forwarded(ctx, c, "rtr", proto.RtrModels, proto.ModelsRequest{})
	if err == nil {
		c.after(func() { c.models = list.Models })
	}
	return list, err
}

func (c *chat) pickModel(list proto.ModelList) {
	p := &picker{title: "Model · type to filter · Enter · Esc", choose: func(i int) { c.useModel(list.Models[i]) }}
	for i, m := range list.Models {
		p.rows = append(p.rows, modelRow(m))
		if c.isModel(m) {
			p.at, p.rows[i] = i, p.rows[i]+"  (now)"
		}
	}
	for _, problem := range list.Problems {
		c.warn(problem)
	}
	c.pick(p)
}

// modelRow describes a model on a line.
func modelRow(m proto.Model) string {
	row := fmt.Sprintf("%-32s  %-10s", safe(m.Name), safe(m.Provider))
	if m.Context > 0 {
		row += "  " + tokens(int64(m.Context))
	}
	if len(m.Efforts) > 0 {
		row += "  " + safe(strings.Join(m.Efforts, " "))
	}
	return row
}

// isModel reports whether the next turn uses a model.
func (c *chat) isModel(m proto.Model) bool {
	return m.Name == c.model && (m.Provider == c.nextProvider() || c.nextProvider() == "")
}

// nextProvider returns the provider of the next turns; "": unknown.
func (c *chat) nextProvider() string { return cmp.Or(c.request.Provider, c.provider) }

// useModelNamed sets a model that was typed. One that no provider lists is used if the
// command is repeated.
func (c *chat) useModelNamed(name string, models []proto.Model) {
	var found *proto.Model
	for i, m := range models {
		if m.Name == name && (found == nil || m.Provider == c.nextProvider()) {
			found = &models[i]
		}
	}
	if found != nil {
		c.useModel(*found)
		return
	}
	if len(models) == 0 || c.unlisted == name {
		c.useModel(proto.Model{Name: name, Provider: c.nextProvider()})
		return
	}
	c.unlisted = name
	c.say("No provider lists a model %s. Nearest: %s. Nothing was changed; repeat the command to use it all the same.", safe(name), safe(strings.Join(nearestNames(name, models), ", ")))
}

// nearestNames returns the names of up to three models that are most like a name.
func nearestNames(name string, models []proto.Model) (names []string) {
	for _, m := range models {
		names = append(names, m.Name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return distance(name, a) - distance(name, b) })
	names = slices.Compact(names)
	return names[:min(3, len(names))]
}

// useModel sets the model of the next turns, and its provider if that is another one.
func (c *chat) useModel(m proto.Model) {
	if m.Provider != c.nextProvider() {
		c.request.Provider = m.Provider
	}
	c.request.Model, c.model, c.unlisted, c.changedIn = m.Name, m.Name, "", c.turn
	c.reselected()
	line := "The next turns use " + m.Name + "."
	if e := c.request.Effort; e != "" && len(m.Efforts) > 0 && !slices.Contains(m.Efforts, e) {
		c.request.Effort = ""
		line += " It does not take effort " + e + "."
	}
	c.say("%s", safe(line))
}

func (c *chat) modelNames() ([]string, bool) {
	names, known := c.list("models", listTime, func(ctx context.Context) ([]string, error) {
		list, err := c.listModels(ctx)
		var names []string
		for _, m := range list.Models {
			names = append(names, m.Name)
		}
		return names, err
	})
	return names, known
}

// account is the state of a provider's key, as zino auth list prints it.
type account struct {
	Provider, Source, Place string
	Usable                  bool
}

// setProvider sets the provider of the next turns, or lets the user pick one.
func (c *chat) setProvider(args string) {
	if args != "" && !slices.Contains(providers, args) {
		c.say("Unknown provider %s: there are %s.", safe(args), strings.Join(providers, ", "))
		return
	}
	await(c, &query{what: "Looking for keys"}, func(ctx context.Context) (map[string]account, error) {
		out, err := c.runZino(ctx, "auth", "list", "--json")
		accounts := map[string]account{}
		for line := range strings.Lines(out) {
			var a account
			if json.Unmarshal([]byte(line), &a) == nil {
				accounts[a.Provider] = a
			}
		}
		return accounts, err
	}, func(accounts map[string]account, err error) {
		if args != "" {
			c.useProvider(args, accounts)
			return
		}
		p := &picker{title: "Provider · type to filter · Enter · Esc", choose: func(i int) { c.useProvider(providers[i], accounts) }}
		for i, name := range providers {
			p.rows = append(p.rows, fmt.Sprintf("%-10s  %s", name, keyState(name, accounts)))
			if name == c.nextProvider() {
				p.at, p.rows[i] = i, p.rows[i]+"  (now)"
			}
		}
		c.pick(p)
	})
}

// keyState says where the key of a provider is from.
func keyState(name string, accounts map[string]account) string {
	a, known := accounts[name]
	switch {
	case name == "ollama":
		return "models of this host, without a key"
	case name == "offline":
		return "no model"
	case !known:
		return ""
	case a.Usable:
		return safe("key from " + strings.TrimSpace(a.Source+" "+a.Place))
	}
	return "no key: zino auth set " + name
}

func (c *chat) useProvider(name string, accounts map[string]account) {
	if a, known := accounts[name]; known && !a.Usable && name != c.provider {
		c.say("There is no key for %s. Set one in another terminal, then repeat the command:", name)
		c.print(kindLine, "  zino auth set "+name)
		return
	}
	c.request.Provider, c.request.Model, c.model, c.changedIn = name, "", name, c.turn
	c.reselected()
	c.say("The next turns use %s, with its default model. Choose another one with /model.", name)
}

// setEffort sets how much the model reasons, or lets the user pick it.
func (c *chat) setEffort(args string) {
	await(c, &query{what: "Asking for the efforts"}, func(ctx context.Context) (proto.ModelList, error) {
		return c.listModels(ctx)
	}, func(list proto.ModelList, err error) {
		allowed, known := c.effortsOf(list.Models)
		switch {
		case known && len(allowed) == 0:
			c.say("%s does not take an effort.", safe(c.model))
		case args == unset:
			c.useEffort("")
		case args == "":
			c.pickOne("Effort", append([]string{unset}, allowed...), cmp.Or(c.request.Effort, unset), c.setEffort)
		case !slices.Contains(allowed, args):
			c.say("%s takes the efforts %s, not %s.", safe(cmp.Or(c.model, "The model")), safe(strings.Join(allowed, ", ")), safe(args))
		default:
			c.useEffort(args)
		}
	})
}

// effortsOf returns the levels that the model takes; known is false if that is not known
// and these are all.
func (c *chat) effortsOf(models []proto.Model) (list []string, known bool) {
	for _, m := range models {
		if c.isModel(m) {
			return m.Efforts, true
		}
	}
	return efforts, false
}

func (c *chat) useEffort(effort string) {
	c.request.Effort = effort
	if effort == "" {
		c.say("The next turns use the effort that is configured, else the model's own.")
		return
	}
	c.say("The next turns use effort %s.", effort)
}

func (c *chat) effortNames() ([]string, bool) {
	if _, known := c.modelNames(); !known {
		return nil, false
	}
	list, _ := c.effortsOf(c.models)
	return append([]string{unset}, list...), true
}

// setSandbox sets the confinement of commands, or lets the user pick it.
func (c *chat) setSandbox(args string) {
	await(c, &query{what: "Asking for the levels"}, func(ctx context.Context) ([]string, error) {
		return c.listLevels(ctx)
	}, func(levels []string, err error) {
		switch {
		case err != nil:
			c.fail(errorOf(err))
		case args == "":
			c.pickOne("Sandbox", levels, c.sandbox, c.setSandbox)
		case !slices.Contains(proto.LevelNames(), args):
			c.say("Unknown level %s: this host has %s.", safe(args), safe(strings.Join(levels, ", ")))
		case !slices.Contains(levels, args):
			c.say("This host does not have the level %s, only %s.", args, safe(strings.Join(levels, ", ")))
		default:
			c.request.Sandbox, c.sandbox = proto.Level(args), args
			c.say("The next turns run commands at level %s.", args)
		}
	})
}

// listLevels asks for the levels of confinement that this host has.
func (c *chat) listLevels(ctx context.Context) (names []string, err error) {
	caps, err := forwarded(ctx, c, "exc", proto.ExcCapabilities, proto.CapabilitiesRequest{})
	for _, level := range caps.Sandboxes {
		names = append(names, string(level))
	}
	if err == nil && names == nil {
		names = proto.LevelNames()
	}
	return names, err
}

func (c *chat) levelNames() ([]string, bool) { return c.list("levels", listTime, c.listLevels) }

// pickOne lets the user pick a word.
func (c *chat) pickOne(title string, words []string, now string, set func(string)) {
	p := &picker{title: title + " · type to filter · Enter · Esc", choose: func(i int) { set(words[i]) }}
	for i, word := range words {
		p.rows = append(p.rows, safe(word))
		if word == now {
			p.at, p.rows[i] = i, p.rows[i]+"  (now)"
		}
	}
	c.pick(p)
}
