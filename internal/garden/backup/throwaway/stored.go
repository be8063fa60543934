package throwaway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// gardenerPrefix is the prefix of the keys of gardener-apiserver, which are <prefix><group>/<resource>/….
const gardenerPrefix = "/registry-gardener/"

// keysPerRequest is the number of keys in a response of etcd.
const keysPerRequest = 5000

// countOfGardener counts the objects of gardener-apiserver by their resources, as resource.group. No API server of the drill serves these
// objects, so countOfGardener only reads their keys, by the JSON API of etcd.
func countOfGardener(ctx context.Context, etcd *rest.Config) (Contents, error) {
	requests, err := rest.HTTPClientFor(etcd)
	if err != nil {
		return nil, fmt.Errorf("create client of etcd: %w", err)
	}
	contents := Contents{}
	end := strings.TrimSuffix(gardenerPrefix, "/") + "0" // it follows "/"
	for next := gardenerPrefix; ; {
		keys, more, err := keysIn(ctx, requests, etcd.Host, next, end)
		if err != nil {
			return nil, err
		}
		for _, each := range keys {
			parts := strings.SplitN(strings.TrimPrefix(each, gardenerPrefix), "/", 3)
			if len(parts) == 3 {
				contents[parts[1]+"."+parts[0]]++
			}
		}
		if !more || len(keys) == 0 {
			return contents, nil
		}
		next = keys[len(keys)-1] + "\x00"
	}
}

// keysIn returns the first keys from begin on that are less than end, and whether there are more.
func keysIn(ctx context.Context, requests *http.Client, host, begin, end string) (keys []string, more bool, err error) {
	body, err := json.Marshal(map[string]any{"key": []byte(begin), "range_end": []byte(end), "keys_only": true, "limit": keysPerRequest})
	if err != nil {
		return nil, false, fmt.Errorf("encode request to etcd: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, host+"/v3/kv/range", bytes.NewReader(body))
	if err != nil {
		return nil, false, fmt.Errorf("create request to etcd: %w", err)
	}
	response, err := requests.Do(request)
	if err != nil {
		return nil, false, fmt.Errorf("list keys of etcd: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, false, fmt.Errorf("list keys of etcd: status %s", response.Status)
	}
	var answer struct {
		Keys []struct {
			Key []byte `json:"key"`
		} `json:"kvs"`
		More bool `json:"more"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, false, fmt.Errorf("decode keys of etcd: %w", err)
	}
	for _, each := range answer.Keys {
		keys = append(keys, string(each.Key))
	}
	return keys, answer.More, nil
}

// with returns the entries of c and of other. If c and other have the same key, the result contains the entry of other.
func (c Contents) with(other Contents) Contents {
	all := maps.Clone(c)
	maps.Copy(all, other)
	return all
}
