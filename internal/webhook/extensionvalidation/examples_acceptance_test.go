package extensionvalidation_test

// The examples of the acceptance items, by item.

func emptyObjects() map[string]example {
	const named, placed = "Required metadata.name: Required value: name or generateName " +
		"is required", "Required metadata.namespace: Required value"
	required := func(fields ...string) []string {
		var texts []string
		for _, each := range fields {
			texts = append(texts, "Required spec."+each+": Required value: field is required")
		}
		return texts
	}
	bare := func(kind string, want ...string) example {
		return example{kind: kind, bare: true, impossible: true, want: append(want, named)}
	}
	return map[string]example{
		"BackupBucket":     bare("BackupBucket", required("type", "region", "secretRef.name")...),
		"BackupEntry":      bare("BackupEntry", required("type", "bucketName", "region", "secretRef.name")...),
		"Bastion":          bare("Bastion", append(required("type", "userData", "ingress"), placed)...),
		"ContainerRuntime": bare("ContainerRuntime", append(required("type", "binaryPath", "workerPool.name"), placed)...),
		"ControlPlane":     bare("ControlPlane", append(required("type", "region", "secretRef.name"), placed)...),
		"DNSRecord": bare("DNSRecord",
			append(required("type", "secretRef.name", "values"), placed, "Required spec.name: Required value",
				`NotSupported spec.recordType: Unsupported value: "": supported values: "A", "AAAA", "CNAME", "TXT"`)...),
		"Etcd":                  bare("Etcd", placed),
		"Extension":             bare("Extension", append(required("type"), placed)...),
		"Infrastructure":        bare("Infrastructure", append(required("type", "region", "secretRef.name"), placed)...),
		"Network":               bare("Network", append(required("type", "podCIDR", "serviceCIDR"), placed)...),
		"OperatingSystemConfig": bare("OperatingSystemConfig", append(required("type", "purpose"), placed)...),
		"Worker":                bare("Worker", append(required("type", "region", "secretRef.name"), placed)...),
	}
}

func deletedObjects() map[string]example {
	frozen := func(kind, change string, want ...string) example {
		return example{kind: kind, updated: true, deleting: true, object: change, want: want}
	}
	const otherSecret = "spec: {secretRef: {name: changed-secretref-name}}"
	const secretChanged = "Forbidden spec: Forbidden: SecretRef.Name: changed-secretref-name != test"
	return map[string]example{
		"BackupBucket": frozen("BackupBucket", otherSecret, secretChanged),
		"BackupEntry":  frozen("BackupEntry", otherSecret, secretChanged),
		"Bastion": frozen("Bastion", "spec: {ingress: [{ipBlock: {cidr: 8.8.8.8/8}}]}",
			"Forbidden spec: Forbidden: Ingress.slice[0].IPBlock.CIDR: 8.8.8.8/8 != 1.2.3.4/8"),
		"ContainerRuntime": frozen("ContainerRuntime", "spec: {binaryPath: changed-binaryPath}",
			"Forbidden spec: Forbidden: BinaryPath: changed-binaryPath != /test/path"),
		"ControlPlane": frozen("ControlPlane", otherSecret, secretChanged),
		"DNSRecord":    frozen("DNSRecord", otherSecret, secretChanged),
		"Etcd":         frozen("Etcd", "spec: {replicas: 3}", "Invalid spec"),
		"Extension": frozen("Extension", "spec: {providerConfig: null}",
			"Forbidden spec: Forbidden: DefaultSpec.ProviderConfig: <nil pointer> != runtime.RawExtension"),
		"Infrastructure": frozen("Infrastructure", otherSecret, secretChanged),
		"Network": frozen("Network", "spec: {providerConfig: null}",
			"Forbidden spec: Forbidden: DefaultSpec.ProviderConfig: <nil pointer> != runtime.RawExtension"),
		"OperatingSystemConfig": frozen("OperatingSystemConfig", "spec: {type: changed-type}",
			"Forbidden spec: Forbidden: DefaultSpec.Type: changed-type != provider"),
		"Worker": frozen("Worker", otherSecret, secretChanged),
		"several fields, in their order, without a space between": frozen("Worker",
			"spec: {type: other, region: there, secretRef: {name: changed-secretref-name}}",
			"Forbidden spec: Forbidden: DefaultSpec.Type: other != provider,Region: there != region,SecretRef.Name: changed-secretref-name != test"),
		"an immutable field is one of the changes": frozen("BackupBucket", "spec: {region: there}",
			"Forbidden spec: Forbidden: Region: there != region"),
		"checks of the new object follow": frozen("BackupBucket", "spec: {region: ''}",
			"Forbidden spec: Forbidden: Region:  != region", "Required spec.region"),
		"nothing changes": frozen("Worker", ""),
		"a quantity is written in another way": frozen("Etcd",
			"spec: {storageCapacity: 20480Mi, etcd: {resources: {requests: {cpu: '0.5'}}}, backup: {garbageCollectionPeriod: 12h}}"),
		"an empty list in place of none":                frozen("Etcd", "spec: {annotations: {}}"),
		"labels and annotations may change":             frozen("Network", "metadata: {labels: {a: b}, annotations: {a: b}}"),
		"a field that is not known makes no difference": frozen("Network", "spec: {unheardOf: true}"),
		"a finalizer goes from an object with today's faults": {
			kind: "DNSRecord", updated: true, deleting: true, impossible: true, before: "spec: {name: x, ttl: -1}",
			object: "{spec: {name: x, ttl: -1}, metadata: {finalizers: []}}",
		},
	}
}

func immutableFields() map[string]example {
	changed := func(kind, change string, fields ...string) example {
		e := example{kind: kind, updated: true, object: change}
		for _, each := range fields {
			e.want = append(e.want, "Invalid spec."+each)
		}
		return e
	}
	return map[string]example{
		"BackupBucket":          changed("BackupBucket", "spec: {type: other, region: there}", "type", "region"),
		"BackupBucket, mutable": changed("BackupBucket", "spec: {secretRef: {name: other, namespace: other}, providerConfig: {a: b}}"),
		"BackupEntry":           changed("BackupEntry", "spec: {type: other}", "type"),
		"BackupEntry, mutable": changed("BackupEntry", "spec: {secretRef: {name: other, namespace: other}, bucketName: other, "+
			"region: there, backupBucketProviderStatus: {a: b}}"),
		"Bastion":          changed("Bastion", "spec: {type: other, userData: b3RoZXI=}", "type", "userData"),
		"Bastion, mutable": changed("Bastion", "spec: {ingress: [{ipBlock: {cidr: 8.8.8.8/8}}]}"),
		"ContainerRuntime": changed("ContainerRuntime", "spec: {type: other, workerPool: "+
			"{name: other}}", "type", "workerPool.name"),
		"ContainerRuntime, mutable": changed("ContainerRuntime",
			"spec: {binaryPath: /other, workerPool: {selector: {matchLabels: {worker: other}}}}"),
		"ControlPlane": changed("ControlPlane", "spec: {type: other, region: there, purpose: exposure}", "type", "region",
			"purpose"),
		"ControlPlane, mutable": changed("ControlPlane",
			"spec: {secretRef: {name: other}, providerConfig: {a: b}, infrastructureProviderStatus: {a: b}}"),
		"DNSRecord": changed("DNSRecord", "spec: {type: other, name: other.example.com, recordType: TXT}", "type", "name",
			"recordType"),
		"DNSRecord, mutable": changed("DNSRecord",
			"spec: {secretRef: {name: other}, region: there, zone: other, values: [5.6.7.8, 5.6.7.9], ttl: 300}"),
		"Etcd": changed("Etcd", "spec: {backup: {store: {prefix: other--$NS/sample}}}", "backup.store.prefix"),
		"Etcd, mutable": changed("Etcd",
			"spec: {replicas: 3, etcd: {quota: 9Gi}, backup: {store: {container: other, provider: S3}}}"),
		"Etcd, a store comes": {kind: "Etcd", updated: true, before: "spec: {backup: {store: null}}"},
		"Etcd, a store goes":  {kind: "Etcd", updated: true, object: "spec: {backup: {store: null}}"},
		"Extension":           changed("Extension", "spec: {type: other}", "type"),
		"Extension, mutable":  changed("Extension", "spec: {providerConfig: null}"),
		"Infrastructure":      changed("Infrastructure", "spec: {type: other, region: there}", "type", "region"),
		"Infrastructure, mutable": changed("Infrastructure",
			"spec: {secretRef: {name: other}, providerConfig: {a: b}, sshPublicKey: b3RoZXI=}"),
		"Network": changed("Network",
			"spec: {type: other, podCIDR: 10.21.0.0/16, serviceCIDR: 10.31.0.0/16, ipFamilies: [IPv4]}", "type", "podCIDR", "serviceCIDR",
			"ipFamilies"),
		"Network, mutable":      changed("Network", "spec: {providerConfig: null}"),
		"OperatingSystemConfig": changed("OperatingSystemConfig", "spec: {type: other, purpose: reconcile}", "type", "purpose"),
		"OperatingSystemConfig, mutable": changed("OperatingSystemConfig", "spec: {criConfig: {name: containerd}, units: [], files: [], "+
			"providerConfig: {a: b}, reloadConfigFilePath: /other}"),
		"Worker": changed("Worker", "spec: {type: other, region: there}", "type", "region"),
		"Worker, mutable": changed("Worker",
			"spec: {secretRef: {name: other}, infrastructureProviderStatus: {a: b}, sshPublicKey: b3RoZXI=, pools: []}"),
		"immutable and wrong by itself": changed("BackupBucket", "spec: {type: other, region: there, secretRef: {name: other}}", "type",
			"region"),
	}
}

func controlPlanePurposes() map[string]example {
	const supported = `: supported values: "normal", "exposure"`
	return map[string]example{
		"unknown": {
			kind: "ControlPlane", object: "spec: {purpose: does-not-exist}",
			want: []string{`NotSupported spec.purpose: Unsupported value: "does-not-exist"` + supported},
		},
		"empty": {
			kind: "ControlPlane", object: "spec: {purpose: ''}", want: []string{`NotSupported spec.purpose: Unsupported value: ""` + supported},
		},
		"exposure": {kind: "ControlPlane", object: "spec: {purpose: exposure}"},
		"normal":   {kind: "ControlPlane", object: "spec: {purpose: normal}"},
		"unset to normal": {
			kind: "ControlPlane", updated: true, object: "spec: {purpose: normal}",
			want: []string{`Invalid spec.purpose: Invalid value: "normal": field is immutable`},
		},
		"exposure dropped": {
			kind: "ControlPlane", updated: true, before: "spec: {purpose: exposure}",
			want: []string{`Invalid spec.purpose: Invalid value: null: field is immutable`},
		},
	}
}

func dnsRecords() map[string]example {
	record := func(change string, want ...string) example {
		return example{kind: "DNSRecord", object: "spec: " + change, want: want}
	}
	const unset = `Invalid value: "": field cannot be empty if specified`
	return map[string]example{
		"region and zone are empty":   record("{region: '', zone: ''}", "Invalid spec.region: "+unset, "Invalid spec.zone: "+unset),
		"region and zone are not set": record("{region: null, zone: null}"),
		"a name of one label": record("{name: test}",
			`Invalid spec.name: Invalid value: "test": should be a domain with at least two segments separated by dots`),
		"a wildcard":                record("{name: '*.test.example.com'}"),
		"a wildcard of a wildcard":  record("{name: '*.*.example.com'}", "Invalid spec.name"),
		"nothing but a wildcard":    record("{name: '*.'}", "Required spec.name: Required value"),
		"a dot at the end":          record("{name: test.example.com.}"),
		"a name with an underscore": record("{name: _acme.example.com, recordType: TXT}", "Invalid spec.name"),
		"a CNAME with two values": record("{recordType: CNAME, values: [a.example.com, b.example.com]}",
			`Invalid spec.values: Invalid value: ["a.example.com","b.example.com"]: CNAME records must have a single value`),
		"a type that is none": record("{recordType: SOA}",
			`NotSupported spec.recordType: Unsupported value: "SOA": supported values: "A", "AAAA", "CNAME", "TXT"`),
		"a name in an A record": record("{recordType: A, values: [example.com]}",
			`Invalid spec.values[0]: Invalid value: "example.com": must be a valid IPv4 address`),
		"a name in an AAAA record": record("{recordType: AAAA, values: [example.com]}",
			`Invalid spec.values[0]: Invalid value: "example.com": must be a valid IPv6 address`),
		"a word in a CNAME":           record("{recordType: CNAME, values: [example]}", "Invalid spec.values[0]"),
		"a wildcard in a CNAME":       record("{recordType: CNAME, values: ['*.example.com']}", "Invalid spec.values[0]"),
		"IPv6 in an A record":         record("{recordType: A, values: [1.2.3.4, '2001:db8::1']}", "Invalid spec.values[1]"),
		"IPv4 in an AAAA record":      record("{recordType: AAAA, values: [1.2.3.4]}", "Invalid spec.values[0]"),
		"IPv4 as IPv6 in an A record": record("{recordType: A, values: ['::ffff:1.2.3.4']}"),
		"IPv4 as IPv6 in AAAA":        record("{recordType: AAAA, values: ['::ffff:1.2.3.4']}", "Invalid spec.values[0]"),
		"zeros in front":              record("{recordType: A, values: [010.002.003.004]}"),
		"a ttl below zero":            record("{ttl: -1}", "Invalid spec.ttl: Invalid value: -1: must be greater than or equal to 0"),
		"a ttl of zero":               record("{ttl: 0}"),
		"any text":                    record("{recordType: TXT, values: [can be anything]}"),
		"an IPv6 address":             record("{recordType: AAAA, values: ['2001:db8:f00::1']}"),
		"an alias":                    record("{recordType: CNAME, values: [example.com]}"),
		"no values":                   record("{values: []}", "Required spec.values: Required value: field is required"),
		"no values of a CNAME":        record("{recordType: CNAME, values: []}", "Required spec.values: Required value: field is required"),
		"one finding for each value":  record("{values: [a, 1.2.3.4, b]}", "Invalid spec.values[0]", "Invalid spec.values[2]"),
		"an update with a bad value": {
			kind: "DNSRecord", updated: true, object: "spec: {values: [a]}", want: []string{"Invalid spec.values[0]"},
		},
	}
}

func networks() map[string]example {
	network := func(change string, want ...string) example {
		return example{kind: "Network", object: "spec: " + change, want: want}
	}
	const (
		v4, v6   = "must be a valid IPv4 address", "must be a valid IPv6 address"
		rangesV6 = "podCIDR: '2001:db8:1::/48', serviceCIDR: '2001:db8:3::/48'"
	)
	return map[string]example{
		"IPv6 ranges without a family": network("{"+rangesV6+"}", `Invalid spec.podCIDR: Invalid value: "2001:db8:1::": `+v4,
			`Invalid spec.serviceCIDR: Invalid value: "2001:db8:3::": `+v4),
		"IPv6 ranges of IPv4": network("{ipFamilies: [IPv4], "+rangesV6+"}",
			`Invalid spec.podCIDR: Invalid value: "2001:db8:1::": `+v4, `Invalid spec.serviceCIDR: Invalid value: "2001:db8:3::": `+v4),
		"IPv6 ranges of IPv6": network("{ipFamilies: [IPv6], " + rangesV6 + "}"),
		"IPv4 ranges of IPv6": network("{ipFamilies: [IPv6]}",
			`Invalid spec.podCIDR: Invalid value: "10.20.30.0": `+v6, `Invalid spec.serviceCIDR: Invalid value: "10.30.40.0": `+v6),
		"ranges that are none": network("{podCIDR: this-is-no-cidr, serviceCIDR: this-is-still-no-cidr}",
			`Invalid spec.podCIDR: Invalid value: "this-is-no-cidr": invalid CIDR address: this-is-no-cidr`,
			`Invalid spec.serviceCIDR: Invalid value: "this-is-still-no-cidr": invalid CIDR address: this-is-still-no-cidr`),
		"equal ranges": network("{serviceCIDR: 10.20.30.40/26}",
			`Invalid spec.serviceCIDR: Invalid value: "10.20.30.40/26": must not overlap with "spec.podCIDR" ("10.20.30.40/26")`),
		"services within pods": network("{podCIDR: 10.0.0.0/8}", "Invalid spec.serviceCIDR"),
		"pods within services": network("{serviceCIDR: 10.0.0.0/8}", "Invalid spec.serviceCIDR"),
		"families that are none": network("{ipFamilies: [foo, bar]}",
			`NotSupported spec.ipFamilies[0]: Unsupported value: "foo": supported values: "IPv4", "IPv6"`,
			`NotSupported spec.ipFamilies[1]: Unsupported value: "bar": supported values: "IPv4", "IPv6"`),
		"families twice": network("{ipFamilies: [IPv4, IPv6, IPv4, IPv6]}",
			`Duplicate spec.ipFamilies[2]: Duplicate value: "IPv4"`, `Duplicate spec.ipFamilies[3]: Duplicate value: "IPv6"`),
		"both families": network("{ipFamilies: [IPv4, IPv6]}",
			`Invalid spec.ipFamilies: Invalid value: ["IPv4","IPv6"]: dual-stack networking is not supported`),
		"wrong families end the checks, but for the type": network("{type: '', ipFamilies: [foo], podCIDR: '', serviceCIDR: x}",
			"Required spec.type", "NotSupported spec.ipFamilies[0]"),
		"a range is missing": network("{podCIDR: ''}", "Required spec.podCIDR: Required value: field is required"),
		"an IPv4 range becomes one of IPv6": {kind: "Network", updated: true, object: "spec: {ipFamilies: [IPv6]}", want: []string{
			`Invalid spec.ipFamilies: Invalid value: ["IPv6"]: field is immutable`,
			`Invalid spec.podCIDR: Invalid value: "10.20.30.0": ` + v6, `Invalid spec.serviceCIDR: Invalid value: "10.30.40.0": ` + v6,
		}},
	}
}

func workers() map[string]example {
	const capacity = "spec.pools[0].nodeTemplate.capacity."
	pool := func(change string, want ...string) example {
		return example{
			kind:   "Worker",
			object: "spec: {pools: [{name: p, machineType: t, machineImage: {name: i, version: v}, userData: '', " + change + "}]}", want: want,
		}
	}
	return map[string]example{
		"a pool with almost nothing": {
			kind: "Worker", object: "spec: {pools: [{architecture: test, nodeTemplate: {capacity: {cpu: '-1', gpu: '1', memory: 8Gi}}}]}",
			want: []string{
				"Required spec.pools[0].machineType", "Required spec.pools[0].machineImage.name", "Required spec.pools[0].machineImage.version",
				"Required spec.pools[0].name", "Required spec.pools[0].userData",
				`NotSupported spec.pools[0].architecture: Unsupported value: "test": supported values: "amd64", "arm64"`,
				`Invalid ` + capacity + `cpu: Invalid value: "-1": must be greater than or equal to 0`,
			},
		},
		"an architecture that is none": {
			kind: "Worker", updated: true,
			object: "spec: {pools: [{name: p, machineType: t, machineImage: {name: i, version: v}, userData: '', architecture: foo}]}",
			want:   []string{"NotSupported spec.pools[0].architecture"},
		},
		"another architecture": {
			kind: "Worker", updated: true,
			object: "spec: {pools: [{name: p, machineType: t, machineImage: {name: i, version: v}, userData: '', architecture: arm64}]}",
		},
		"no pools":        {kind: "Worker", object: "spec: {pools: []}"},
		"no architecture": pool("architecture: null"),
		"fractions where they are fine": pool("nodeTemplate: {capacity: {cpu: 500m, gpu: 500m, memory: '0.5', requests.example.com/a: 500m, " +
			"kubernetes.io/a: 500m}}"),
		"fractions of objects": pool("nodeTemplate: {capacity: {pods: 500m, services.nodeports: 1500m}}",
			"Invalid "+capacity+`pods: Invalid value: "500m": must be an integer`, "Invalid "+capacity+"services.nodeports"),
		"fractions of devices": pool("nodeTemplate: {capacity: {example.com/a: 500m, example.com/b: '2', example.com/c: 10E}}",
			"Invalid "+capacity+`example.com/a: Invalid value: "500m": must be an integer`),
		"negative fractions of devices": pool("nodeTemplate: {capacity: {example.com/a: -500m}}",
			"Invalid "+capacity+`example.com/a: Invalid value: "-500m": must be greater than or equal to 0`,
			"Invalid "+capacity+`example.com/a: Invalid value: "-500m": must be an integer`),
		"user data of null": pool("userData: null", "Required spec.pools[0].userData"),
		"equal names": {
			kind: "Worker",
			object: "spec: {pools: [{name: p, machineType: t, machineImage: {name: i, version: v}, userData: ''}, {name: p, machineType: t, " +
				"machineImage: {name: i, version: v}, userData: '', minimum: 3, maximum: 1}]}",
		},
	}
}

func etcds() map[string]example {
	etcd := func(change string, want ...string) example {
		return example{kind: "Etcd", object: "spec: {backup: " + change + "}", want: want}
	}
	examples := map[string]example{
		"prefix and provider are invalid": etcd("{store: {prefix: invalid, provider: invalid}}",
			`Invalid spec.backup.store.prefix: Invalid value: "invalid": must contain object name and namespace`,
			`Invalid spec.backup.store.provider: Invalid value: "invalid": unsupported storage provider: invalid`),
		"no store":                {kind: "Etcd", object: "spec: {backup: {store: null}}"},
		"no backup":               {kind: "Etcd", object: "spec: {backup: null}"},
		"no provider":             etcd("{store: {provider: null}}"),
		"an empty provider":       etcd("{store: {provider: ''}}"),
		"another case":            etcd("{store: {provider: s3}}", "Invalid spec.backup.store.provider"),
		"a prefix without a name": etcd("{store: {prefix: $NS/other}}", "Invalid spec.backup.store.prefix"),
		"a prefix elsewhere":      etcd("{store: {prefix: other/sample}}", "Invalid spec.backup.store.prefix"),
		"a prefix with more":      etcd("{store: {prefix: a-$NS-b/c-sample-d}}"),
		"the prefix changes": {
			kind: "Etcd", updated: true, object: "spec: {backup: {store: {prefix: $NS/sample2}}}",
			want: []string{`Invalid spec.backup.store.prefix: Invalid value: "$NS/sample2": field is immutable`},
		},
		"replicas, container and provider change": {
			kind: "Etcd", updated: true, object: "spec: {replicas: 3, backup: {store: {container: other, provider: gcp}}}",
		},
	}
	for _, provider := range []string{
		"aws", "S3", "azure", "ABS", "alicloud", "OSS", "openstack", "Swift", "gcp", "GCS", "dell", "ECS", "openshift", "OCS", "Local",
		"local",
	} {
		examples["provider "+provider] = etcd("{store: {provider: " + provider + "}}")
	}
	return examples
}
