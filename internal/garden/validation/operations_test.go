package validation_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/validation"
)

func TestOperations(t *testing.T) {
	const (
		supported = `NotSupported A: supported values: "reconcile", "rotate-ca-complete", "rotate-ca-start", "rotate-credentials-complete", ` +
			`"rotate-credentials-start", "rotate-etcd-encryption-key", "rotate-etcd-encryption-key-complete", ` +
			`"rotate-etcd-encryption-key-start", "rotate-observability-credentials", "rotate-serviceaccount-key-complete", ` +
			`"rotate-serviceaccount-key-start", "rotate-workload-identity-key-complete", "rotate-workload-identity-key-start"`
		rollingOut = "because a previous encryption configuration change is currently being rolled out"
		prepared   = `S: {credentials: {rotation: {certificateAuthorities: {phase: Prepared}, serviceAccountKey: {phase: Prepared},
			etcdEncryptionKey: {phase: Prepared}, workloadIdentityKey: {phase: Prepared}}}}`
		preparing = `S: {credentials: {rotation: {certificateAuthorities: {phase: Preparing}, serviceAccountKey: {phase: Preparing},
			etcdEncryptionKey: {phase: Preparing}, workloadIdentityKey: {phase: Preparing}}}}`
		withoutETCD = `S: {credentials: {rotation: {certificateAuthorities: {phase: Prepared}, serviceAccountKey: {phase: Prepared},
			workloadIdentityKey: {phase: Prepared}}}}`
		encrypted = "K: {encryptionConfig: {resources: [configmaps]}}"
	)
	denyAll := func(step, phase string, fields ...string) []string {
		var all []string
		for _, field := range fields {
			all = append(all, fmt.Sprintf("Forbidden A: cannot %s rotation of all credentials if .status.credentials.rotation.%s.phase is not '%s'",
				step, field, phase))
		}
		return all
	}
	for sentence, tc := range map[string]struct {
		operation string
		changes   []string
		want      []string
	}{
		"none":            {operation: `""`},
		"only separators": {operation: `" ; "`},
		"reconcile":       {operation: "reconcile"},
		"unknown":         {operation: "foo", want: []string{supported}},
		"retry":           {operation: "retry", want: []string{supported}},
		"maintain":        {operation: "maintain", want: []string{supported}},
		"several":         {operation: `"reconcile ; rotate-ca-start;rotate-observability-credentials"`},
		"several, two faults": {
			operation: `"foo;rotate-ca-complete"`,
			want: []string{
				supported, "Forbidden A: cannot complete CA rotation if .status.credentials.rotation.certificateAuthorities.phase is not 'Prepared'",
			},
		},
		"rotation of observability while others go on": {operation: "rotate-observability-credentials", changes: []string{preparing}},

		"all credentials for the first time": {operation: "rotate-credentials-start"},
		"all credentials while others go on": {
			operation: "rotate-credentials-start", changes: []string{preparing},
			want: denyAll("start", "Completed", "certificateAuthorities", "serviceAccountKey", "etcdEncryptionKey", "workloadIdentityKey"),
		},
		"all credentials that are not prepared": {
			operation: "rotate-credentials-complete",
			want:      denyAll("complete", "Prepared", "certificateAuthorities", "serviceAccountKey", "etcdEncryptionKey", "workloadIdentityKey"),
		},
		"all credentials that are prepared": {operation: "rotate-credentials-complete", changes: []string{prepared}},
		"all credentials without the key for etcd before 1.34": {
			operation: "rotate-credentials-complete", changes: []string{withoutETCD}, want: denyAll("complete", "Prepared", "etcdEncryptionKey"),
		},
		"all credentials without the key for etcd from 1.34 on": {
			operation: "rotate-credentials-complete", changes: []string{withoutETCD, "version: 1.34.0"},
		},
		"all credentials without the key for etcd in a pre-release of 1.34": {
			operation: "rotate-credentials-complete", changes: []string{withoutETCD, "version: 1.34.0-rc.1"},
		},
		"all credentials while encryption changes": {
			operation: "rotate-credentials-start", changes: []string{encrypted},
			want: []string{"Forbidden A: cannot start rotation of all credentials " + rollingOut},
		},

		"the key for etcd in one step": {operation: "rotate-etcd-encryption-key", changes: []string{"version: 1.34.0"}},
		"the key for etcd in one step while it is prepared": {
			operation: "rotate-etcd-encryption-key", changes: []string{prepared},
			want: []string{
				"Forbidden A: cannot start ETCD encryption key rotation if .status.credentials.rotation.etcdEncryptionKey.phase is not 'Completed'",
			},
		},
		"the key for etcd in two steps from 1.34 on": {
			operation: `"rotate-etcd-encryption-key-start;rotate-etcd-encryption-key-complete"`, changes: []string{"version: 1.34.0"},
			want: []string{
				`Forbidden A: operation "rotate-etcd-encryption-key-start" is not supported for Kubernetes 1.34 and later, use ` +
					`"rotate-etcd-encryption-key"`,
				`Forbidden A: operation "rotate-etcd-encryption-key-complete" is not supported for Kubernetes 1.34 and later, use ` +
					`"rotate-etcd-encryption-key"`,
				"Forbidden A: cannot complete ETCD encryption key rotation if .status.credentials.rotation.etcdEncryptionKey.phase is not 'Prepared'",
			},
		},
		"the key for etcd in both ways": {
			operation: `"rotate-etcd-encryption-key;rotate-etcd-encryption-key-start"`,
			want:      []string{`Forbidden A: operations "rotate-etcd-encryption-key" and "rotate-etcd-encryption-key-start" cannot be combined`},
		},
		"the key for etcd while encryption changes": {
			operation: "rotate-etcd-encryption-key-start", changes: []string{encrypted},
			want: []string{"Forbidden A: cannot start ETCD encryption key rotation " + rollingOut},
		},
		"the key for etcd in one step while encryption changes": {
			operation: "rotate-etcd-encryption-key", changes: []string{encrypted},
			want: []string{"Forbidden A: cannot start ETCD encryption key rotation " + rollingOut},
		},
		"the key for etcd after encryption changed": {
			operation: "rotate-etcd-encryption-key", changes: []string{encrypted, "S: {credentials: {encryptionAtRest: {resources: [configmaps]}}}"},
		},
		"the key for etcd after encryption changed, with the status of v1.138": {
			operation: "rotate-etcd-encryption-key", changes: []string{encrypted, "S: {encryptedResources: [configmaps]}"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			if tc.want == nil {
				tc.want = []string{}
			}
			changed := garden(t, append(tc.changes, "A: "+tc.operation)...)
			g.Expect(texts(validation.Operations(changed))).To(BeComparableTo(tc.want))
			g.Expect(texts(validation.Create(changed, nil))).To(ContainElements(tc.want))
			g.Expect(texts(validation.Update(changed, garden(t, tc.changes...), nil))).To(BeComparableTo(tc.want))
			g.Expect(validation.Update(changed, changed, nil)).To(BeEmpty(), "operations are not judged again")
			g.Expect(validation.Stored(changed, changed)).To(BeEmpty(), "operations are not part of the spec")
		})
	}
}

func TestOperationsInEveryPhase(t *testing.T) {
	for _, tc := range []struct{ operation, field, name string }{
		{"rotate-ca", "certificateAuthorities", "CA rotation"},
		{"rotate-serviceaccount-key", "serviceAccountKey", "service account key rotation"},
		{"rotate-etcd-encryption-key", "etcdEncryptionKey", "ETCD encryption key rotation"},
		{"rotate-workload-identity-key", "workloadIdentityKey", "workload identity key rotation"},
	} {
		for _, phase := range []string{"", "Preparing", "Prepared", "Completing", "Completed"} {
			for _, step := range []string{"start", "complete"} {
				t.Run(tc.operation+" "+step+" in "+phase, func(t *testing.T) {
					g := NewWithT(t)
					changes := []string{"A: " + tc.operation + "-" + step}
					if phase != "" {
						changes = append(changes, fmt.Sprintf("S: {credentials: {rotation: {%s: {phase: %s}}}}", tc.field, phase))
					}
					want := []string{}
					required := map[string]string{"start": "Completed", "complete": "Prepared"}[step]
					if phase != required && (step != "start" || phase != "") {
						want = append(want, fmt.Sprintf("Forbidden A: cannot %s %s if .status.credentials.rotation.%s.phase is not '%s'",
							step, tc.name, tc.field, required))
					}
					g.Expect(texts(validation.Operations(garden(t, changes...)))).To(BeComparableTo(want))
				})
			}
		}
	}
}

func TestAborts(t *testing.T) {
	const path = "Forbidden abort: cannot abort rotation .status.credentials.rotation."
	rotation := func(field, state string) string {
		return fmt.Sprintf("S: {credentials: {rotation: {%s: {%s}}}}", field, state)
	}
	for sentence, tc := range map[string]struct {
		names   string
		changes []string
		want    []string
	}{
		"none": {names: `""`},
		"unknown": {
			names: "ca",
			want: []string{`NotSupported abort: supported values: "certificate-authorities", "encryption-key", "service-account-key", ` +
				`"workload-identity-key"`},
		},
		"no rotation":           {names: "certificate-authorities", want: []string{path + "certificateAuthorities: none is going on"}},
		"in one step":           {names: "observability", want: []string{path + "observability: it has only one step"}},
		"while it is prepared":  {names: "service-account-key", changes: []string{rotation("serviceAccountKey", "phase: Preparing")}},
		"after it was prepared": {names: "workload-identity-key", changes: []string{rotation("workloadIdentityKey", "phase: Prepared")}},
		"while it completes": {
			names: "certificate-authorities", changes: []string{rotation("certificateAuthorities", "phase: Completing")},
			want: []string{path + "certificateAuthorities: it is in phase Completing, so that the former credential is not trusted everywhere any " +
				"more; complete it, and rotate again"},
		},
		"an encryption key in two steps": {names: "encryption-key", changes: []string{rotation("etcdEncryptionKey", "phase: Prepared")}},
		"an encryption key that completes by itself": {
			names: "encryption-key", changes: []string{rotation("etcdEncryptionKey", "phase: Prepared, autoCompleteAfterPrepared: true")},
			want: []string{path + "etcdEncryptionKey: it completes by itself; wait until it has completed, and rotate again"},
		},
		"an encryption key of Kubernetes 1.34": {
			names: "encryption-key", changes: []string{"version: 1.34.1", rotation("etcdEncryptionKey", "phase: Prepared")},
			want: []string{path + "etcdEncryptionKey: it completes by itself; wait until it has completed, and rotate again"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			if tc.want == nil {
				tc.want = []string{}
			}
			changed := garden(t, append(tc.changes, "abort: "+tc.names)...)
			g.Expect(texts(validation.Update(changed, garden(t, tc.changes...), nil))).To(BeComparableTo(tc.want))
			g.Expect(texts(validation.Create(changed, nil))).To(ContainElements(tc.want))
			g.Expect(validation.Update(changed, changed, nil)).To(BeEmpty(), "aborts are not judged again")
			if len(tc.want) == 0 && tc.names != `""` {
				changed.DeletionTimestamp = &metav1.Time{}
				g.Expect(texts(validation.Aborts(changed))).To(Equal(
					[]string{"Forbidden abort: cannot abort a rotation if garden has deletion timestamp"},
				))
			}
		})
	}
}

func TestNoRotationDuringDeletion(t *testing.T) {
	for operation, name := range map[operatorv1alpha1.Operation]string{
		operatorv1alpha1.OperationRotateCAStart:                     "start CA rotation",
		operatorv1alpha1.OperationRotateCAComplete:                  "complete CA rotation",
		operatorv1alpha1.OperationRotateServiceAccountKeyStart:      "start service account key rotation",
		operatorv1alpha1.OperationRotateServiceAccountKeyComplete:   "complete service account key rotation",
		operatorv1alpha1.OperationRotateETCDEncryptionKey:           "start ETCD encryption key rotation",
		operatorv1alpha1.OperationRotateETCDEncryptionKeyStart:      "start ETCD encryption key rotation",
		operatorv1alpha1.OperationRotateETCDEncryptionKeyComplete:   "complete ETCD encryption key rotation",
		operatorv1alpha1.OperationRotateWorkloadIdentityKeyStart:    "start workload identity key rotation",
		operatorv1alpha1.OperationRotateWorkloadIdentityKeyComplete: "complete workload identity key rotation",
		operatorv1alpha1.OperationRotateObservabilityCredentials:    "start Observability credentials rotation",
		operatorv1alpha1.OperationRotateCredentialsStart:            "start rotation of all credentials",
		operatorv1alpha1.OperationRotateCredentialsComplete:         "complete rotation of all credentials",
	} {
		t.Run(string(operation), func(t *testing.T) {
			g := NewWithT(t)
			deleted := garden(t, "A: "+string(operation))
			deleted.DeletionTimestamp = &metav1.Time{}
			g.Expect(texts(validation.Operations(deleted))).To(ContainElement("Forbidden A: cannot " + name + " if garden has deletion timestamp"))
		})
	}
	g := NewWithT(t)
	deleted := garden(t, "A: reconcile")
	deleted.DeletionTimestamp = &metav1.Time{}
	g.Expect(validation.Operations(deleted)).To(BeEmpty())
}
