package validation_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/espalier-dev/espalier/internal/garden/validation"
)

func TestRulesForChanges(t *testing.T) {
	const (
		backup     = "V: {etcd: {main: {backup: {provider: S3, bucketName: b, secretRef: {name: a}}}}}"
		reconciled = "S: {observedGeneration: 1, lastOperation: {type: Reconcile, state: Succeeded, progress: 100, description: '', " +
			"lastUpdateTime: null}}"
		encrypted  = "K: {encryptionConfig: {resources: [configmaps]}}"
		secretbox  = "K: {encryptionConfig: {provider: {type: secretbox}}}"
		rollingOut = "because a previous encryption configuration change is currently being rolled out"
		rotating   = "while the ETCD encryption key rotation is not completed"
		inEvents   = "K: {resourcesToStoreInETCDEvents: [{group: coordination.k8s.io, resource: leases}, {group: a.example.com, resource: b}]}"
		lost       = "existing objects would stay in the other etcd and be lost for the virtual cluster; restore the former entries, or " +
			"confirm the loss with the annotation espalier.dev/confirm-lost-resources="
		other = "V: {maintenance: {timeWindow: {begin: 210000+0100}}}"
	)
	for sentence, tc := range map[string]struct {
		old     []string
		changes []string
		want    []string
	}{
		// domains
		"the first ingress domain": {
			changes: []string{"R: {ingress: {domains: [a.example.com]}}"}, want: []string{"Invalid R.ingress.domains[0]: field is immutable"},
		},
		"the ingress domain of v1.84 to another one": {
			old:     []string{"R: {ingress: {domain: a.example.com, domains: null}}"},
			changes: []string{"R: {ingress: {domain: null, domains: [b.example.com]}}"},
			want:    []string{"Invalid R.ingress.domains[0]: field is immutable"},
		},
		"the ingress domain of v1.84 to a list": {
			old:     []string{"R: {ingress: {domain: a.example.com, domains: null}}"},
			changes: []string{"R: {ingress: {domain: null, domains: [a.example.com]}}"},
		},
		"the first domain": {
			changes: []string{"V: {dns: {domains: [example.org, example.com]}}"},
			want:    []string{"Invalid V.dns.domains[0].name: field is immutable"},
		},
		"a later domain":         {changes: []string{"V: {dns: {domains: [example.com, a.example.org]}}"}},
		"a domain appended":      {changes: []string{"V: {dns: {domains: [example.com, example.org, example.net]}}"}},
		"a later domain removed": {changes: []string{"V: {dns: {domains: [example.com]}}"}},
		"all domains removed": {
			changes: []string{"V: {dns: {domains: []}}"}, want: []string{"Required V.dns.domains: must provide at least one domain"},
		},

		// networks
		"networks appended": {changes: []string{
			"R: {networking: {nodes: [10.1.0.0/16, 10.11.0.0/16], pods: [10.2.0.0/16, 10.12.0.0/16], services: [10.3.0.0/16, 10.13.0.0/16]}}",
			"V: {networking: {services: [100.64.0.0/13, 2001:db8::/112]}}",
		}},
		"networks changed": {changes: []string{
			"R: {networking: {nodes: [10.11.0.0/16], pods: [10.12.0.0/16], services: [10.13.0.0/16]}}",
			"V: {networking: {services: [100.96.0.0/13]}}",
		}, want: []string{
			"Invalid R.networking.nodes[0]: field is immutable", "Invalid R.networking.pods[0]: field is immutable",
			"Invalid R.networking.services[0]: field is immutable", "Invalid V.networking.services[0]: field is immutable",
		}},
		"networks removed": {
			old: []string{
				"R: {networking: {nodes: [10.1.0.0/16, 10.11.0.0/16], pods: [10.2.0.0/16, 10.12.0.0/16], services: [10.3.0.0/16, 10.13.0.0/16]}}",
				"V: {networking: {services: [100.64.0.0/13, 2001:db8::/112]}}",
			},
			changes: []string{
				"R: {networking: {nodes: [10.1.0.0/16], pods: [10.2.0.0/16], services: [10.3.0.0/16]}}", "V: {networking: {services: [100.64.0.0/13]}}",
			},
			want: []string{
				"Forbidden R.networking.nodes: nodes cannot be removed", "Forbidden R.networking.pods: pods cannot be removed",
				"Forbidden R.networking.services: services cannot be removed", "Forbidden V.networking.services: services cannot be removed",
			},
		},
		"networks of v1.112 to lists": {
			old: []string{
				"R: {networking: {nodes: 10.1.0.0/16, pods: 10.2.0.0/16, services: 10.3.0.0/16}}", "V: {networking: {services: 100.64.0.0/13}}",
			},
			changes: []string{
				"R: {networking: {nodes: [10.1.0.0/16], pods: [10.2.0.0/16], services: [10.3.0.0/16]}}", "V: {networking: {services: [100.64.0.0/13]}}",
				other,
			},
		},

		// control plane, backup, version
		"high availability set": {changes: []string{"V: {controlPlane: {highAvailability: {}}}"}},
		"high availability removed": {
			old: []string{"V: {controlPlane: {highAvailability: {}}}"}, changes: []string{"V: {controlPlane: {highAvailability: null}}"},
			want: []string{"Invalid V.controlPlane.highAvailability: field is immutable"},
		},
		"the control plane removed": {
			old: []string{"V: {controlPlane: {highAvailability: {}}}"}, changes: []string{"V: {controlPlane: null}"},
			want: []string{"Invalid V.controlPlane.highAvailability: field is immutable"},
		},
		"the backup set":      {changes: []string{backup}},
		"the backup's Secret": {old: []string{backup}, changes: []string{"V: {etcd: {main: {backup: {secretRef: {name: b}}}}}"}},
		"the backup removed": {
			old: []string{backup}, changes: []string{"V: {etcd: null}"},
			want: []string{"Forbidden V.etcd.main.backup: backup must not be deactivated if it was set before"},
		},
		"the bucket removed": {
			old: []string{backup}, changes: []string{"V: {etcd: {main: {backup: {bucketName: null}}}}"},
			want: []string{"Invalid V.etcd.main.backup.bucketName: field is immutable"},
		},
		"the bucket set later": {
			old: []string{backup, "V: {etcd: {main: {backup: {bucketName: null}}}}"}, changes: []string{backup},
			want: []string{"Invalid V.etcd.main.backup.bucketName: field is immutable"},
		},
		"the bucket set later to the one in use": {
			old:     []string{backup, "V: {etcd: {main: {backup: {bucketName: null}}}}"},
			changes: []string{backup, "V: {etcd: {main: {backup: {bucketName: garden-}}}}"},
		},
		"a backup without bucket": {
			changes: []string{"V: {etcd: {main: {backup: {provider: S3, secretRef: {name: a}}}}}"},
			want: []string{"Required V.etcd.main.backup.bucketName: name an existing bucket, or create an Extension that offers BackupBucket and " +
				`BackupEntry of type "S3"`},
		},
		"a backup without Secret": {
			changes: []string{"V: {etcd: {main: {backup: {provider: S3, bucketName: b}}}}"},
			want:    []string{"Required V.etcd.main.backup.secretRef.name: name the Secret with the credentials for the bucket"},
		},
		"a stored backup without bucket that changes": {
			old:     []string{backup, "V: {etcd: {main: {backup: {bucketName: null}}}}"},
			changes: []string{"V: {etcd: {main: {backup: {secretRef: {name: b}}}}}"},
			want: []string{"Required V.etcd.main.backup.bucketName: name an existing bucket, or create an Extension that offers BackupBucket and " +
				`BackupEntry of type "S3"`},
		},
		"another field beside a stored backup without bucket": {
			old: []string{backup, "V: {etcd: {main: {backup: {bucketName: null}}}}"}, changes: []string{"version: 1.34.0"},
		},
		"the next version": {changes: []string{"version: 1.34.0"}},
		"an earlier patch": {
			changes: []string{"version: 1.33.0"}, want: []string{"Forbidden V.kubernetes.version: kubernetes version downgrade is not supported"},
		},
		"an earlier minor": {
			changes: []string{"version: 1.32.9"}, want: []string{"Forbidden V.kubernetes.version: kubernetes version downgrade is not supported"},
		},
		"a minor left out": {
			changes: []string{"version: 1.35.0"},
			want:    []string{"Forbidden V.kubernetes.version: kubernetes version upgrade cannot skip a minor version"},
		},
		"a version that is none": {
			changes: []string{"version: a.b"},
			want:    []string{`Invalid V.kubernetes.version: parse version "a.b" of Kubernetes: could not parse "a.b" as version`, unsupported},
		},
		"from a version that is none": {
			old: []string{"version: ''"}, changes: []string{"version: 1.33.0"},
			want: []string{`Invalid V.kubernetes.version: parse version "" of Kubernetes: could not parse "" as version`},
		},

		// storage
		"the StorageClass of an etcd": {
			old:     []string{"V: {etcd: {main: {storage: {className: slow}}}}"},
			changes: []string{"V: {etcd: {main: {storage: {className: fast}}, events: {storage: {className: fast}}}}"},
			want: []string{
				"Invalid V.etcd.main.storage.className: field is immutable", "Invalid V.etcd.events.storage.className: field is immutable",
			},
		},
		"the StorageClass removed": {
			old: []string{"V: {etcd: {events: {storage: {className: slow}}}}"}, changes: []string{"V: {etcd: null}"},
			want: []string{"Invalid V.etcd.events.storage.className: field is immutable"},
		},
		"the capacity of an etcd": {
			old: []string{"V: {etcd: {main: {storage: {className: slow}}}}"}, changes: []string{"V: {etcd: {main: {storage: {capacity: 5Gi}}}}"},
		},

		// values that are not supported any more
		"retired values that stay": {
			old: []string{
				"K: {eventTTL: 168h, serviceAccountConfig: {acceptedIssuers: ['http://a']}}",
				"G: {gardenerAPIServer: {featureGates: {WorkerlessShoots: true}, admissionPlugins: [{name: ProjectValidator}]}, " +
					"gardenerControllerManager: {featureGates: {WorkerlessShoots: true}}, gardenerScheduler: {featureGates: {WorkerlessShoots: true}}}",
			},
			changes: []string{other},
		},
		"retired values that change": {
			old: []string{
				"K: {eventTTL: 168h, serviceAccountConfig: {acceptedIssuers: ['http://a']}}",
				"G: {gardenerAPIServer: {featureGates: {WorkerlessShoots: true}, admissionPlugins: [{name: ProjectValidator}]}}",
			},
			changes: []string{
				"K: {eventTTL: 100h, serviceAccountConfig: {acceptedIssuers: ['http://a', 'https://b']}}",
				"G: {gardenerAPIServer: {featureGates: {WorkerlessShoots: false}, admissionPlugins: [{name: ProjectValidator, disabled: true}]}}",
			},
			want: []string{
				"Forbidden G.gardenerAPIServer.featureGates.WorkerlessShoots: not supported by Gardener",
				"NotSupported G.gardenerAPIServer.admissionPlugins[0].name: " + plugins,
				"Invalid K.serviceAccountConfig.acceptedIssuers[0]: " + noIssuer,
				"Invalid K.eventTTL: can not be longer than 24h",
			},
		},
		"gates that never were": {
			old: []string{"G: {gardenerAPIServer: {featureGates: {Foo: true}}}"}, changes: []string{other},
			want: []string{"Forbidden G.gardenerAPIServer.featureGates.Foo: not supported by Gardener"},
		},

		// resources in the etcd for events
		"resources in the etcd for events before the operator has begun": {changes: []string{inEvents}},
		"resources to the etcd for events": {
			old: []string{reconciled}, changes: []string{inEvents}, want: []string{"Forbidden K.resourcesToStoreInETCDEvents: " + lost +
				"b.a.example.com,leases.coordination.k8s.io"},
		},
		"a resource from the etcd for events": {
			old: []string{reconciled, inEvents}, changes: []string{"K: {resourcesToStoreInETCDEvents: [{group: a.example.com, resource: b}]}"},
			want: []string{"Forbidden K.resourcesToStoreInETCDEvents: " + lost + "leases.coordination.k8s.io"},
		},
		"one of two resources to the etcd for events is confirmed": {
			old:     []string{reconciled},
			changes: []string{inEvents, "{metadata: {annotations: {espalier.dev/confirm-lost-resources: b.a.example.com}}}"},
			want:    []string{"Forbidden K.resourcesToStoreInETCDEvents: " + lost + "leases.coordination.k8s.io"},
		},
		"resources to the etcd for events are confirmed": {old: []string{reconciled}, changes: []string{
			inEvents, "{metadata: {annotations: {espalier.dev/confirm-lost-resources: 'b.a.example.com, leases.coordination.k8s.io'}}}",
		}},
		"the order of resources in the etcd for events": {old: []string{reconciled, inEvents}, changes: []string{
			"K: {resourcesToStoreInETCDEvents: [{group: a.example.com, resource: b}, {group: coordination.k8s.io, resource: leases}]}",
		}},
		"another field beside resources in the etcd for events": {old: []string{reconciled, inEvents}, changes: []string{other}},
		"a malformed entry is removed": {
			old:     []string{reconciled, "K: {resourcesToStoreInETCDEvents: [{group: a.example.com, resource: 'b#https://c,/pods'}]}"},
			changes: []string{"K: {resourcesToStoreInETCDEvents: null}"},
		},

		// encryption
		"encryption before the operator has begun": {changes: []string{encrypted}},
		"the provider before the operator has begun": {
			changes: []string{secretbox},
			want: []string{
				"Forbidden K.encryptionConfig.provider.type: provider cannot be changed before the Garden has been reconciled for the first time",
			},
		},
		"encryption during the first run": {
			old: []string{encrypted, "S: {observedGeneration: 1}"}, changes: []string{"K: {encryptionConfig: {resources: []}}"},
			want: []string{"Forbidden K.encryptionConfig.resources: resources cannot be changed " + rollingOut},
		},
		"encryption": {old: []string{reconciled}, changes: []string{encrypted}},
		"encryption by gardener-apiserver": {
			old: []string{reconciled}, changes: []string{"G: {gardenerAPIServer: {encryptionConfig: {resources: [shoots.core.gardener.cloud]}}}"},
		},
		"the provider":             {old: []string{reconciled}, changes: []string{secretbox}},
		"the provider spelled out": {changes: []string{"K: {encryptionConfig: {provider: {type: aescbc}}}", other}},
		"resources and provider": {
			old: []string{reconciled}, changes: []string{encrypted, secretbox},
			want: []string{"Forbidden K.encryptionConfig: resources and provider cannot be changed at the same time"},
		},
		"encryption after a change": {
			old:     []string{reconciled, encrypted, "S: {credentials: {encryptionAtRest: {resources: [configmaps]}}}"},
			changes: []string{"K: {encryptionConfig: {resources: []}}"},
		},
		"encryption in another order": {
			old:     []string{reconciled, "K: {encryptionConfig: {resources: [a, b]}}"},
			changes: []string{"K: {encryptionConfig: {resources: [b, a]}}"},
		},
		"encryption while a provider changes": {
			old: []string{reconciled, secretbox, "S: {credentials: {encryptionAtRest: {provider: {type: aescbc}}}}"}, changes: []string{encrypted},
			want: []string{"Forbidden K.encryptionConfig.resources: resources cannot be changed " + rollingOut},
		},
		"the provider during a rotation": {
			old: []string{reconciled, "S: {credentials: {rotation: {etcdEncryptionKey: {phase: Prepared}}}}"}, changes: []string{secretbox},
			want: []string{"Forbidden K.encryptionConfig.provider.type: provider cannot be changed " + rotating},
		},
		"encryption during a rotation": {
			old: []string{reconciled, "S: {credentials: {rotation: {etcdEncryptionKey: {phase: Preparing}}}}"}, changes: []string{encrypted},
			want: []string{"Forbidden K.encryptionConfig.resources: resources cannot be changed " + rotating},
		},
		"encryption after a rotation": {
			old: []string{reconciled, "S: {credentials: {rotation: {etcdEncryptionKey: {phase: Completed}}}}"}, changes: []string{encrypted},
		},
		"another field during a rotation": {
			old: []string{reconciled, encrypted, "S: {credentials: {rotation: {etcdEncryptionKey: {phase: Preparing}}}}"}, changes: []string{other},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			if tc.want == nil {
				tc.want = []string{}
			}
			old, updated := garden(t, tc.old...), garden(t, append(tc.old, tc.changes...)...)
			before, after := old.DeepCopy(), updated.DeepCopy()
			g.Expect(texts(validation.Update(updated, old, nil))).To(BeComparableTo(tc.want))
			g.Expect(updated).To(BeComparableTo(after), "the arguments stay as they are")
			g.Expect(old).To(BeComparableTo(before))
		})
	}
}

// A Garden that rules forbid by now can lose its finalizers, also if defaulting has changed since it was stored.
func TestUpdatesOfMetadataIgnoreTheSpec(t *testing.T) {
	for sentence, tc := range rules {
		t.Run(sentence, func(t *testing.T) {
			g := NewWithT(t)
			old := garden(t, tc.changes...)
			updated := old.DeepCopy()
			updated.Labels = map[string]string{"a": "b"}
			g.Expect(validation.Update(updated, old, nil)).To(BeEmpty())
			defaultedByWebhook(updated)
			g.Expect(validation.Update(updated, old, nil)).To(BeEmpty(), "after defaulting")
			g.Expect(texts(validation.Stored(old, old))).To(ConsistOf(retained(tc.want)))
		})
	}
}
