package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	modelsTime = 10 * time.Second
	maxModels  = 1 << 20 // bytes of a list of models
)

// FirstModel asks an endpoint on OpenAI's wire for its models and returns the
// first that can hold a conversation.
func (ep *Endpoint) FirstModel(ctx context.Context) (string, error) {
	body, err := ep.get(ctx, "/models")
	if err != nil {
		return "", err
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return "", errors.New("it has no list of models: set [service] model")
	}
	ids := make([]string, len(list.Data))
	for i, m := range list.Data {
		ids[i] = m.ID
	}
	return pick(ids)
}

// pick returns the first usable model. Those that only embed text are passed over.
func pick(ids []string) (string, error) {
	for _, id := range ids {
		if id != "" && id == oneLine(id, 200) && !strings.Contains(id, "embed") {
			return id, nil
		}
	}
	return "", errors.New("it has no model: load one there, or set [service] model")
}

// get reads what stands at a path below the base URL.
func (ep *Endpoint) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequest(http.MethodGet, ep.Base+path, nil)
	if err != nil {
		return nil, errors.New("not a usable base URL: check " + ep.BaseHint)
	}
	return ep.read(ctx, req)
}

// read makes a small request and reads its answer, which is to be JSON.
func (ep *Endpoint) read(ctx context.Context, req *http.Request) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, modelsTime)
	defer cancel()
	identify(req)
	ep.bearer(req.Header)
	resp, err := ep.Client.Do(req.WithContext(ctx))
	if err != nil {
		return nil, ep.unreachable(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxModels))
	if err != nil {
		return nil, ep.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("its list of models: %w; or set [service] model", ep.refusal(resp.StatusCode, body))
	}
	return body, nil
}
