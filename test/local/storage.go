package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

// DefinitionPrefix is the part of the key of each CustomResourceDefinition before its name.
const DefinitionPrefix = "/registry/apiextensions.k8s.io/customresourcedefinitions/"

// Stored contains objects in the form in which an API server has stored them, by their keys in etcd:
// "/registry/deployments/garden/gardener-apiserver".
type Stored map[string][]byte

// IsWrittenByClients reports whether the object with a key is not one that API servers themselves write again and again.
func IsWrittenByClients(key string) bool {
	return !slices.ContainsFunc([]string{
		"events/", "leases/", "masterleases/", "peerserverleases/", "apiregistration.k8s.io/", "flowschemas/", "prioritylevelconfigurations/",
		"servicecidrs/",
	}, func(each string) bool { return strings.HasPrefix(key, "/registry/"+each) })
}

// Storage reads and writes the etcd of an API server. It copies objects and writes them back, with their UIDs and statuses, for a small
// part of the processor time of requests to the API server. The API server notices each change like a change of another API server. Only
// one goroutine may use a Storage.
type Storage struct {
	url    string
	client *http.Client
	// holds reports whether the Storage may copy and change the object with a key.
	holds func(key string) bool
	// written contains the values that this Storage has written, with their revisions, by their keys.
	written map[string]revision
}

// revision is the value of a key at a revision of etcd.
type revision struct {
	number string
	value  []byte
}

// Storage returns the Storage of the server. It never reads or changes objects for whose key holds returns false.
func (s Server) Storage(holds func(key string) bool) (*Storage, error) {
	ports, err := readPorts(s.layout.ports())
	if err != nil {
		return nil, err
	}
	client, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CAFile: s.layout.pki(etcdCACert), CertFile: s.layout.pki(etcdCert), KeyFile: s.layout.pki(etcdKey),
	}})
	if err != nil {
		return nil, fmt.Errorf("create client of etcd: %w", err)
	}
	return &Storage{url: "https://" + address(ports.Etcd), client: client, holds: holds, written: map[string]revision{}}, nil
}

// keyValue is a key with its value in the JSON API of etcd.
type keyValue struct {
	Key      []byte `json:"key"`
	Value    []byte `json:"value,omitempty"`
	Revision string `json:"mod_revision,omitempty"`
}

// Copy returns all objects that the Storage may copy.
func (s *Storage) Copy(ctx context.Context) (Stored, error) {
	all, err := s.list(ctx, false)
	stored := Stored{}
	for _, each := range all {
		stored[string(each.Key)] = each.Value
		s.written[string(each.Key)] = revision{each.Revision, each.Value}
	}
	return stored, err
}

// Restore makes the objects in etcd equal to stored: it writes objects that are missing or different, and deletes all others that the
// Storage may change. It changes definitions before objects, which may be of their kinds.
func (s *Storage) Restore(ctx context.Context, stored Stored) error {
	all, err := s.list(ctx, true)
	if err != nil {
		return err
	}
	present := map[string]string{}
	var definitions, objects []change
	add := func(key string, c change) {
		if strings.HasPrefix(key, DefinitionPrefix) {
			definitions = append(definitions, c)
		} else {
			objects = append(objects, c)
		}
	}
	for _, each := range all {
		key := string(each.Key)
		present[key] = each.Revision
		if _, wanted := stored[key]; !wanted {
			add(key, change{Remove: &keyValue{Key: each.Key}})
		}
	}
	for key, value := range stored {
		if last := s.written[key]; present[key] == "" || last.number != present[key] || !bytes.Equal(last.value, value) {
			add(key, change{Put: &keyValue{Key: []byte(key), Value: value}})
		}
	}
	if err := s.write(ctx, definitions); err != nil {
		return err
	}
	return s.write(ctx, objects)
}

// writers is the number of changes that are sent to etcd at the same time.
const writers = 8

// change is one operation of a transaction.
type change struct {
	Put    *keyValue `json:"request_put,omitempty"`
	Remove *keyValue `json:"request_delete_range,omitempty"`
}

// write makes each change in a transaction of its own. The changes of one transaction have the same revision, and a client whose watch ends
// between two of them continues after that revision: it never learns of the second change.
func (s *Storage) write(ctx context.Context, changes []change) error {
	revisions := make([]string, len(changes))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i, each := range changes {
		group.Go(func() error {
			var answer struct {
				Header struct {
					Revision string `json:"revision"`
				} `json:"header"`
			}
			err := s.post(ctx, "/v3/kv/txn", map[string]any{"success": []change{each}}, &answer)
			revisions[i] = answer.Header.Revision
			return err
		})
	}
	err := group.Wait()
	for i, each := range changes {
		if each.Put != nil && revisions[i] != "" {
			s.written[string(each.Put.Key)] = revision{revisions[i], each.Put.Value}
		}
	}
	return err
}

// list returns the keys in etcd that the Storage may copy, with or without their values.
func (s *Storage) list(ctx context.Context, keysOnly bool) ([]keyValue, error) {
	var answer struct {
		Keys []keyValue `json:"kvs"`
	}
	request := map[string]any{"key": []byte("/registry/"), "range_end": []byte("/registry0"), "keys_only": keysOnly} // "0" follows "/"
	if err := s.post(ctx, "/v3/kv/range", request, &answer); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(answer.Keys, func(each keyValue) bool { return !s.holds(string(each.Key)) }), nil
}

func (s *Storage) post(ctx context.Context, path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request to etcd: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("create request to etcd: %w", err)
	}
	response, err := s.client.Do(r)
	if err != nil {
		return fmt.Errorf("send request to etcd: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s to %s", response.Status, path)
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("decode answer of etcd: %w", err)
	}
	return nil
}
