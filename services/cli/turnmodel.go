package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"zino/pkg/config"
	keystore "zino/pkg/keys"
	"zino/proto"
)

// greet says how to connect a model where there is none, and what works without:
// tools is the directory of the tools that are installed.
func (a *app) greet(c proto.RouterCapabilities, tools string) {
	if !c.Fallback && c.Provider != "offline" {
		return
	}
	a.say("No model is connected: the offline provider answers (no AI). To connect one:")
	a.say("  zino auth login openrouter; zino auth set PROVIDER; ANTHROPIC_API_KEY (or OPENAI_, GEMINI_, OPENROUTER_API_KEY) in the environment;")
	a.say("  [api] base_url; or a model server on this host (Ollama, llama.cpp, LM Studio, vLLM). For now: %s.", strings.Join(offlineCommands(tools), ", "))
}

// offlineCommands are the commands of the offline provider whose tools are there.
func offlineCommands(tools string) []string {
	list := []string{"run"}
	for _, tool := range []struct{ command, file string }{{"python", "python3.json"}, {"remember", "remember.json"}, {"recall", "recall.json"}} {
		if _, err := os.Stat(filepath.Join(tools, tool.file)); err == nil {
			list = append(list, tool.command)
		}
	}
	return append(list, "tour")
}

// modelSet is an error that says how to connect a model if neither the
// configuration nor the environment nor the user's keys name one.
func (a *app) modelSet(cfg *config.Config) error {
	if a.provider != "" || cfg.Provider != "" || cfg.API.BaseURL != "" || cfg.API.Key != "" || cfg.API.KeyFile != "" || cfg.OpenAIBaseURL != "" || keyGiven() {
		return nil
	}
	return errors.New("no model is connected: run `zino auth set PROVIDER` or `zino auth login openrouter`, set ANTHROPIC_API_KEY (or OPENAI_API_KEY, GEMINI_API_KEY, OPENROUTER_API_KEY; " +
		"Anthropic's keys: https://console.anthropic.com/settings/keys), or set [api] base_url in the configuration; " +
		`provider = "auto" looks for a model server on this host, provider = "offline" does without`)
}

// keyGiven reports whether the environment or the user's store has a key, or
// says where a model is. rtr decides what is made of it.
func keyGiven() bool {
	for _, name := range slices.Concat(providerKeys, []string{"OPENAI_BASE_URL"}) {
		if strings.TrimSpace(os.Getenv(name)) != "" {
			return true
		}
	}
	store, err := keystore.OpenUser(os.Getenv)
	if err != nil {
		return false
	}
	list, err := store.List()
	return err != nil || len(list) > 0 // rtr says what is wrong with it
}

// withoutKey words the error of a daemon that lacks a key which the caller's shell
// has: it was started before the key was exported. Keys in the store take effect
// at once. Those of the host's daemon are not the caller's business.
func (d *daemon) withoutKey(err error) error {
	e, ok := errors.AsType[*proto.Error](err)
	shell := keyInShell()
	if !ok || d.own != nil || d.client.Path == hostSocket || e.Code != proto.CodeUnavailable || shell.Name == "" || !strings.Contains(e.Message, shell.Variable) {
		return err
	}
	explained := *e
	explained.Message = fmt.Sprintf("no key: run `zino auth set %s`, which takes effect at once; the running daemon was started without %s, which this shell has", shell.Name, shell.Variable)
	return &explained
}

// keyInShell is the first account whose key the caller's environment has.
func keyInShell() keystore.Account {
	for _, account := range keystore.Accounts() {
		if strings.TrimSpace(os.Getenv(account.Variable)) != "" {
			return account
		}
	}
	return keystore.Account{}
}
