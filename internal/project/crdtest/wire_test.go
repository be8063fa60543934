package crdtest

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
)

func pointer[T any](value T) *T { return &value }

func TestWireFormOfAProject(t *testing.T) {
	alice := rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "alice"}
	for sentence, tc := range map[string]struct {
		project corev1beta1.Project
		want    string
	}{
		"nothing set": {want: `{"metadata":{},"spec":{},"status":{}}`},
		"a member without roles": {
			project: corev1beta1.Project{Spec: corev1beta1.ProjectSpec{Members: []corev1beta1.ProjectMember{{Subject: alice}}}},
			want: `{"metadata":{},"spec":{"members":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"alice","role":""}]},` +
				`"status":{}}`,
		},
		"a member with roles": {
			project: corev1beta1.Project{Spec: corev1beta1.ProjectSpec{Members: []corev1beta1.ProjectMember{
				{
					Subject: rbacv1.Subject{Kind: "ServiceAccount", Name: "robot", Namespace: "garden-a"}, Role: "admin",
					Roles: []string{"uam", "extension:a"},
				},
			}}},
			want: `{"metadata":{},"spec":{"members":[{"kind":"ServiceAccount","name":"robot","namespace":"garden-a","role":"admin",` +
				`"roles":["uam","extension:a"]}]},"status":{}}`,
		},
		"everything else": {
			project: corev1beta1.Project{
				ObjectMeta: metav1.ObjectMeta{Name: "a"},
				Spec: corev1beta1.ProjectSpec{
					CreatedBy: &alice, Owner: &alice, Description: pointer("d"), Purpose: pointer("p"), Namespace: pointer("garden-a"),
					Tolerations: &corev1beta1.ProjectTolerations{
						Defaults:  []corev1beta1.Toleration{{Key: "k"}},
						Whitelist: []corev1beta1.Toleration{{Key: "k", Value: pointer("v")}, {Key: "k"}},
					},
				},
				Status: corev1beta1.ProjectStatus{
					ObservedGeneration: 7, Phase: "Ready",
					StaleSinceTimestamp:      pointer(metav1.NewTime(time.Date(2020, 1, 2, 3, 4, 5, 678, time.UTC))),
					StaleAutoDeleteTimestamp: pointer(metav1.NewTime(time.Date(2021, 1, 2, 3, 4, 5, 0, time.UTC))),
					LastActivityTimestamp:    pointer(metav1.NewTime(time.Date(2022, 1, 2, 3, 4, 5, 0, time.UTC))),
				},
			},
			want: `{"metadata":{"name":"a"},
				"spec":{
					"createdBy":{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"alice"},
					"owner":{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"alice"},
					"description":"d","purpose":"p","namespace":"garden-a",
					"tolerations":{"defaults":[{"key":"k"}],"whitelist":[{"key":"k","value":"v"},{"key":"k"}]}},
				"status":{"observedGeneration":7,"phase":"Ready","staleSinceTimestamp":"2020-01-02T03:04:05Z",
					"staleAutoDeleteTimestamp":"2021-01-02T03:04:05Z","lastActivityTimestamp":"2022-01-02T03:04:05Z"}}`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			got, err := json.Marshal(tc.project)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(MatchJSON(tc.want))
		})
	}
}

func TestGoClientsRoundTripAProject(t *testing.T) {
	e := newEnv(t)
	subject := rbacv1.Subject{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "alice"}
	project := &corev1beta1.Project{
		ObjectMeta: metav1.ObjectMeta{Name: "typed"},
		Spec: corev1beta1.ProjectSpec{
			Owner: &subject, Members: []corev1beta1.ProjectMember{{Subject: subject}, {Subject: subject, Roles: []string{"uam"}}},
		},
	}
	want := project.Spec.DeepCopy()
	e.Expect(e.client.Create(t.Context(), project)).To(Succeed())
	e.Expect(&project.Spec).To(BeComparableTo(want))
	e.Expect(e.client.Status().Update(t.Context(), project)).To(Succeed())
	e.Expect(e.client.Update(t.Context(), project)).To(Succeed())
	e.Expect(&project.Spec).To(BeComparableTo(want))
	e.Expect(project.Status).To(BeComparableTo(corev1beta1.ProjectStatus{}))
	e.Expect(e.client.Delete(t.Context(), project)).To(Succeed())
}

func TestEveryKindIsRegistered(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(corev1beta1.AddToScheme(scheme)).To(Succeed())
	known := scheme.KnownTypes(corev1beta1.SchemeGroupVersion)
	for _, kind := range []string{
		"Project", "Shoot", "BackupEntry", "Plant", "SecretBinding", "Quota", "Seed",
		"ControllerRegistration", "ControllerDeployment", "ControllerInstallation",
	} {
		g.Expect(known).To(And(HaveKey(kind), HaveKey(kind+"List")))
	}
	g.Expect(corev1beta1.SchemeGroupVersion.String()).To(Equal("core.gardener.cloud/v1beta1"))
}
