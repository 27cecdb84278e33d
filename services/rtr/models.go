package rtr

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

// firstModel asks the endpoint for its models and returns the first that can
// hold a conversation.
func (e *endpoint) firstModel(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, modelsTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+"/models", nil)
	if err != nil {
		return "", errors.New("not a usable [api] base_url")
	}
	e.authorize(req)
	resp, err := e.client.Do(req)
	if err != nil {
		return "", e.unreachable(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxModels))
	if err != nil {
		return "", e.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("its list of models: %w; or set [service] model", e.refused(resp.StatusCode, body))
	}
	return pickModel(body)
}

// pickModel reads a list of models. Models that only embed text are passed over.
func pickModel(body []byte) (string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return "", errors.New("it has no list of models: set [service] model")
	}
	for _, m := range list.Data {
		if m.ID != "" && m.ID == oneLine(m.ID, 200) && !strings.Contains(m.ID, "embed") {
			return m.ID, nil
		}
	}
	return "", errors.New("it has no model: load one there, or set [service] model")
}
