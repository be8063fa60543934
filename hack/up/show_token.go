package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const tokenExample = "examples/token.yaml"

// showToken requests a token by the example, and shows as which user the API server authenticates it.
func (s settings) showToken(ctx context.Context, r *report, w world) error {
	r.step("tokens: applying %s", tokenExample)
	objects, err := readManifests(filepath.Join(s.root, tokenExample))
	if err != nil {
		return err
	}
	err = apply(ctx, w.client, objects...)
	if err != nil {
		return err
	}
	secret := object("v1", "Secret", exampleNamespace, "picker", nil)
	var token string
	err = await(ctx, 30*time.Second, "token in "+describe(secret), func(ctx context.Context) error {
		failure := w.client.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		if failure != nil {
			return failure
		}
		token, failure = dataOf(secret, "token")
		return failure
	})
	if err != nil {
		return err
	}
	user, err := bearerOf(ctx, w.admin, token)
	if err != nil {
		return fmt.Errorf("use token of %s: %w", describe(secret), err)
	}
	_, _ = fmt.Fprintf(r, "Secret picker has a token; who bears it is %q to the API server", user)
	_, _ = fmt.Fprintf(r, "it will be renewed at %s", secret.GetAnnotations()["serviceaccount.resources.gardener.cloud/token-renew-timestamp"])
	return nil
}

// bearerOf asks the API server for the user of a token.
func bearerOf(ctx context.Context, admin *rest.Config, token string) (string, error) {
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	review, err := clients.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}

// dataOf returns the value of a key of a Secret.
func dataOf(secret *unstructured.Unstructured, key string) (string, error) {
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", key)
	if encoded == "" {
		return "", errors.New("it has none yet")
	}
	return decodeBase64(encoded)
}
