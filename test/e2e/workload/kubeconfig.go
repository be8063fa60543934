package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// kubeconfig contains the fields of the format for tokens; the Kubernetes client library for it would make the image three times as large.
type kubeconfig struct {
	CurrentContext string `json:"current-context"`
	Contexts       []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string `json:"name"`
		Cluster struct {
			Server    string `json:"server"`
			Authority []byte `json:"certificate-authority-data"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string `json:"name"`
		User struct {
			Token string `json:"token"`
		} `json:"user"`
	} `json:"users"`
}

// fromKubeconfig returns server and credentials of the current context of a kubeconfig.
func fromKubeconfig(file string) (server string, authority []byte, token string, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", nil, "", err
	}
	config := kubeconfig{}
	if err := yaml.Unmarshal(content, &config); err != nil {
		return "", nil, "", fmt.Errorf("read %s: it is not a kubeconfig", file)
	}
	for _, context := range config.Contexts {
		if context.Name == config.CurrentContext {
			return config.resolve(context.Context.Cluster, context.Context.User)
		}
	}
	return "", nil, "", fmt.Errorf("read %s: it has no context %q", file, config.CurrentContext)
}

func (k kubeconfig) resolve(cluster, user string) (server string, authority []byte, token string, err error) {
	for _, each := range k.Clusters {
		if each.Name == cluster {
			server, authority = each.Cluster.Server, each.Cluster.Authority
		}
	}
	for _, each := range k.Users {
		if each.Name == user {
			token = each.User.Token
		}
	}
	if server == "" || token == "" {
		return "", nil, "", fmt.Errorf("resolve context: cluster %q or user %q is not there, or says nothing", cluster, user)
	}
	return server, authority, token, nil
}
