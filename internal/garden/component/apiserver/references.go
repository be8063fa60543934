package apiserver

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/auditpolicy"
	secretconfig "github.com/espalier-dev/espalier/internal/secrets/config"
)

// References are the contents of the objects that the Garden refers to for each API server, after Resolve has checked them.
type References struct {
	// AuditPolicy is the text of a Policy; empty if there is none.
	AuditPolicy string
	// AuditWebhook is the kubeconfig for the audit webhook; nil if there is none.
	AuditWebhook []byte
	// AdmissionKubeconfigs are kubeconfigs by the name of the admission plugin.
	AdmissionKubeconfigs map[string][]byte
}

// Found are the existing objects that the Garden refers to, by their names.
type Found struct {
	Secrets    map[string]*corev1.Secret
	ConfigMaps map[string]*corev1.ConfigMap
}

// Kinds of objects that the Garden refers to.
const (
	KindSecret    = "secret"
	KindConfigMap = "configmap"
)

// Reference is a field that names an object.
type Reference struct {
	// What is a noun phrase for the content of the object, such as "audit policy". It completes error messages.
	What string
	// Path is the field below the settings of the API server.
	Path string
	// Kind is KindSecret or KindConfigMap.
	Kind, Name string
	// Keys are the data keys that Read needs. Each must exist in the object and have a value that is not empty.
	Keys []string
	// Read stores the values of the keys. It returns an error if a value is not valid.
	Read func(values [][]byte) error
}

// ObjectNames are names of objects, without duplicates.
type ObjectNames struct{ Secrets, ConfigMaps []string }

// Names returns the names of the objects of references.
func Names(wanted []Reference) (names ObjectNames) {
	for _, each := range wanted {
		list := &names.Secrets
		if each.Kind == KindConfigMap {
			list = &names.ConfigMaps
		}
		if !slices.Contains(*list, each.Name) {
			*list = append(*list, each.Name)
		}
	}
	return names
}

// Resolve calls Read of each reference with the values in the object that the reference names. Each of the errors names an object and a
// key that is missing or malformed, and how to correct it. No error contains a value of a Secret.
func (s Server) Resolve(wanted []Reference, found Found) []error {
	var problems []error
	for _, each := range wanted {
		if err := each.resolve(found); err != nil {
			problems = append(problems, fmt.Errorf("failed reading %s from referenced %s %s/%s: %w; correct it, or change %s.%s",
				each.What, each.Kind, s.Namespace, each.Name, err, s.Path, each.Path))
		}
	}
	return problems
}

func (r Reference) resolve(found Found) error {
	var content map[string][]byte
	if r.Kind == KindConfigMap {
		if o := found.ConfigMaps[r.Name]; o != nil {
			content = map[string][]byte{}
			for key, value := range o.Data {
				content[key] = []byte(value)
			}
		}
	} else if o := found.Secrets[r.Name]; o != nil {
		content = o.Data
		if content == nil {
			content = map[string][]byte{}
		}
	}
	if content == nil {
		return fmt.Errorf("it does not exist, and must have the key %q", r.Keys[0])
	}
	return r.ReadKeys(content)
}

// ReadKeys passes the values of Keys in the data of an object to Read. It returns an error if a value is missing, empty, or not valid.
func (r Reference) ReadKeys(content map[string][]byte) error {
	list := make([][]byte, 0, len(r.Keys))
	for _, key := range r.Keys {
		if len(content[key]) == 0 {
			return fmt.Errorf("the %s's field '%s' is either not present or empty", r.Kind, key)
		}
		list = append(list, content[key])
	}
	if err := r.Read(list); err != nil {
		return fmt.Errorf("the %s's field '%s' is malformed: %w", r.Kind, r.Keys[0], err)
	}
	return nil
}

// AuditReferences returns the references to an audit policy and to the kubeconfig for a webhook. Their Read functions fill refs.
func AuditReferences(audit *operatorv1alpha1.AuditConfig, webhook *operatorv1alpha1.AuditWebhook, refs *References) []Reference {
	var all []Reference
	if policy := audit.PolicyRef(); policy != nil {
		all = append(all, Reference{
			What: "audit policy", Path: "auditConfig.auditPolicy.configMapRef.name", Kind: KindConfigMap, Name: policy.Name,
			Keys: []string{auditpolicy.Key}, Read: func(list [][]byte) error {
				refs.AuditPolicy = string(list[0])
				return auditpolicy.Check(refs.AuditPolicy)
			},
		})
	}
	if webhook != nil {
		all = append(all, Kubeconfig(webhook.KubeconfigSecretName, "audit webhook", "auditWebhook.kubeconfigSecretName",
			func(content []byte) { refs.AuditWebhook = content }))
	}
	return all
}

// AdmissionReferences returns the references to kubeconfigs of admission plugins. Their Read functions fill refs.
func AdmissionReferences(p Plugins, refs *References) []Reference {
	refs.AdmissionKubeconfigs = map[string][]byte{}
	var all []Reference
	for _, each := range p.Settings {
		if each.KubeconfigSecretName == nil || !slices.Contains(webhookPlugins, each.Name) {
			continue
		}
		judge := judgeUsers
		if each.Name == imagePolicyWebhook {
			judge = judgeEndpoint
		}
		path := fmt.Sprintf("admissionPlugins[%s].kubeconfigSecretName", each.Name)
		all = append(all, kubeconfigIn(*each.KubeconfigSecretName, "admission plugin "+each.Name, path, judge,
			func(content []byte) { refs.AdmissionKubeconfigs[each.Name] = content }))
	}
	return all
}

// Kubeconfig returns the reference to a Secret with a kubeconfig that contains the address of a server.
func Kubeconfig(name, of, path string, store func([]byte)) Reference {
	return kubeconfigIn(name, of, path, judgeEndpoint, store)
}

func kubeconfigIn(name, of, path string, judge func([]byte) error, store func([]byte)) Reference {
	return Reference{
		What: "kubeconfig for " + of, Path: path, Kind: KindSecret, Name: name, Keys: []string{secretconfig.DataKeyKubeconfig},
		Read: func(list [][]byte) error {
			store(list[0])
			return judge(list[0])
		},
	}
}

// judgeUsers returns an error if a kubeconfig is not valid for an admission plugin that reads only its users.
func judgeUsers(content []byte) error {
	_, err := selfContained(content)
	return err
}

// selfContained decodes a kubeconfig. It returns an error if the kubeconfig refers to files or programs. Most of them do not exist in the
// Pods of the API server; a file that exists there may be a credential that the author of the kubeconfig may not use.
func selfContained(content []byte) (*clientcmdapi.Config, error) {
	config, err := clientcmd.Load(content)
	if err != nil { // the cause could have a part of the content
		return nil, errors.New("it cannot be decoded as a kubeconfig")
	}
	for name, each := range config.Clusters {
		if each.CertificateAuthority != "" {
			return nil, fmt.Errorf("its cluster %q refers to a file: use certificate-authority-data", name)
		}
	}
	for name, each := range config.AuthInfos {
		if each.ClientCertificate != "" || each.ClientKey != "" || each.TokenFile != "" || each.Exec != nil {
			return nil, fmt.Errorf("its user %q refers to a file or a program: put the content into the kubeconfig", name)
		}
	}
	return config, nil
}

// judgeEndpoint returns an error if a kubeconfig is not valid for a client that reads the server address of its current context.
func judgeEndpoint(content []byte) error {
	config, err := selfContained(content)
	if err != nil {
		return err
	}
	if config.CurrentContext == "" {
		return errors.New("it has no current-context")
	}
	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return fmt.Errorf("it has no context %q, which is its current-context", config.CurrentContext)
	}
	cluster := config.Clusters[current.Cluster]
	if cluster == nil {
		return fmt.Errorf("it has no cluster %q, which its current context names", current.Cluster)
	}
	if cluster.Server == "" {
		return fmt.Errorf("its cluster %q has no server", current.Cluster)
	}
	if data := cluster.CertificateAuthorityData; len(data) > 0 {
		if _, err := cert.ParseCertsPEM(data); err != nil {
			return fmt.Errorf("certificate-authority-data of its cluster %q must be PEM certificates in base64", current.Cluster)
		}
	}
	return nil
}
