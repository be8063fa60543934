package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	"github.com/espalier-dev/espalier/test/bench/gauge"
	"github.com/espalier-dev/espalier/test/local"
)

// use is the way in which the namespace of a Project is used. The namespaces are in the order of the Projects' names.
type use string

const (
	// withShoots has Shoots, and the SecretBinding that these use: every other namespace.
	withShoots use = "Shoot"
	// bySecret and byQuota have a Secret or a Quota that Shoots of the preceding namespace use.
	bySecret use = "Secret"
	byQuota  use = "Quota"
	// unused has a Secret and a Quota as well, which are not used: one in ten.
	unused use = "nothing"
)

func useOf(i int) use {
	switch {
	case i%2 == 0:
		return withShoots
	case i%10 == 9:
		return unused
	case i%4 == 1:
		return bySecret
	default:
		return byQuota
	}
}

// The names within each namespace; the Shoots reference the binding.
const (
	bindingName = "account"
	secretName  = "credentials"
	quotaName   = "limits"
)

// addUses fills the namespaces of the Projects, so that the checks search for all kinds of use, and most Secrets belong to Shoots.
func (g *garden) addUses(ctx context.Context, o options) error {
	list := &corev1beta1.ProjectList{}
	if err := g.admin.List(ctx, list); err != nil {
		return err
	}
	namespaces := make([]string, len(list.Items))
	for i := range list.Items {
		namespaces[i] = ptr.Deref(list.Items[i].Spec.Namespace, "")
	}
	err := parallel(ctx, len(namespaces), filling, func(ctx context.Context, i int) error { return g.addCredentials(ctx, namespaces, i) })
	if err != nil {
		return err
	}
	shoot, err := fullShoot()
	if err != nil {
		return err
	}
	holders := (len(namespaces) + 1) / 2
	return parallel(ctx, o.shoots, filling, func(ctx context.Context, i int) error {
		made := shoot.DeepCopy()
		made.SetNamespace(namespaces[2*(i%holders)])
		made.SetName(fmt.Sprintf("s-%05d", i))
		return g.addShoot(ctx, made, o.secrets)
	})
}

// addCredentials creates a Secret in a namespace, and a SecretBinding or a Quota.
func (g *garden) addCredentials(ctx context.Context, namespaces []string, i int) error {
	referenced := map[string]string{"reference.gardener.cloud/secretbinding": "true"}
	meta := func(name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespaces[i], Name: name, Labels: labels}
	}
	if err := g.admin.Create(ctx, &corev1.Secret{ObjectMeta: meta(secretName, referenced)}); err != nil {
		return err
	}
	if useOf(i) != withShoots {
		quota := &corev1beta1.Quota{ObjectMeta: meta(quotaName, referenced)}
		quota.Spec.Scope = corev1.ObjectReference{APIVersion: "v1", Kind: "Secret"}
		return g.admin.Create(ctx, quota)
	}
	binding := &corev1beta1.SecretBinding{ObjectMeta: meta(bindingName, nil), SecretRef: corev1.SecretReference{Namespace: namespaces[i], Name: secretName}}
	if i+1 < len(namespaces) {
		switch useOf(i + 1) {
		case bySecret:
			binding.SecretRef.Namespace = namespaces[i+1]
		case byQuota:
			binding.Quotas = []corev1.ObjectReference{{Namespace: namespaces[i+1], Name: quotaName}}
		case withShoots, unused:
		}
	}
	return g.admin.Create(ctx, binding)
}

// addShoot creates a Shoot with its own Secrets.
func (g *garden) addShoot(ctx context.Context, shoot *unstructured.Unstructured, secrets int) error {
	if err := g.admin.Create(ctx, shoot); err != nil {
		return err
	}
	owner := metav1.OwnerReference{APIVersion: shoot.GetAPIVersion(), Kind: shoot.GetKind(), Name: shoot.GetName(), UID: shoot.GetUID()}
	for i := range secrets {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: shoot.GetNamespace(), Name: fmt.Sprintf("%s.kubeconfig-%d", shoot.GetName(), i),
				Labels: map[string]string{"gardener.cloud/role": "kubeconfig"}, OwnerReferences: []metav1.OwnerReference{owner},
			},
			Data: map[string][]byte{"kubeconfig": make([]byte, 1024)},
		}
		if err := g.admin.Create(ctx, secret); err != nil {
			return err
		}
	}
	return nil
}

// fullShoot returns a Shoot with a realistic size.
func fullShoot() (*unstructured.Unstructured, error) {
	root, err := local.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	manifest, err := os.ReadFile(filepath.Join(root, "internal", "project", "crdtest", "testdata", "shoot.yaml"))
	if err != nil {
		return nil, err
	}
	return decode(manifest)
}

// judged waits until every unused Project is marked as stale, and fails if another one is: otherwise the checks did not do the measured
// work.
func (g *garden) judged(ctx context.Context) error {
	return gauge.Await(ctx, patience, "the Projects that nobody uses to be marked", func() (bool, error) {
		list := &corev1beta1.ProjectList{}
		if err := g.admin.List(ctx, list); err != nil {
			return false, err
		}
		missing := 0
		for i := range list.Items {
			stale := list.Items[i].Status.StaleSinceTimestamp != nil
			switch {
			case stale && useOf(i) != unused:
				return false, fmt.Errorf("project %s is marked as stale, but used by a %s", list.Items[i].Name, useOf(i))
			case !stale && useOf(i) == unused:
				missing++
			}
		}
		return missing == 0, nil
	})
}
