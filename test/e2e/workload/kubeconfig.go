package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// kubeconfig contains the fields of the format for tokens; the Kubernetes client library for it would make the image three times as large.
type kubeconfig struct {
	CurrentContext string  `json:"current-context"`
	Contexts       []entry `json:"contexts"`
	Clusters       []entry `json:"clusters"`
	Users          []entry `json:"users"`
}

// entry is one of a list of contexts, clusters or users, and has only the field of that name.
type entry struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
	Cluster struct {
		Server    string `json:"server"`
		Authority []byte `json:"certificate-authority-data"`
	} `json:"cluster"`
	User struct {
		Token string `json:"token"`
	} `json:"user"`
}

// named returns the entry of that name, or an empty one.
func named(entries []entry, name string) entry {
	for _, each := range entries {
		if each.Name == name {
			return each
		}
	}
	return entry{}
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
	context := named(config.Contexts, config.CurrentContext)
	if context.Name == "" {
		return "", nil, "", fmt.Errorf("read %s: it has no context %q", file, config.CurrentContext)
	}
	cluster, user := named(config.Clusters, context.Context.Cluster).Cluster, named(config.Users, context.Context.User).User
	if cluster.Server == "" || user.Token == "" {
		return "", nil, "", fmt.Errorf("read %s: cluster or user of context %q is not there, or says nothing", file, context.Name)
	}
	return cluster.Server, cluster.Authority, user.Token, nil
}
