package extensionvalidation_test

// metadata returns examples of invalid metadata. API servers refuse such objects before they call webhooks.
func metadata() map[string]example {
	create := func(kind, change string, want ...string) example {
		return example{kind: kind, object: "metadata: " + change, impossible: true, want: want}
	}
	update := func(change string, want ...string) example {
		return example{kind: "Worker", object: "metadata: " + change, updated: true, impossible: true, want: want}
	}
	return map[string]example{
		"a name that is none":      create("Worker", "{name: No_Name}", "Invalid metadata.name"),
		"a name to be generated":   create("Worker", "{name: worker-abcde, generateName: worker-}"),
		"a namespace that is none": create("Worker", "{namespace: a.b}", "Invalid metadata.namespace"),
		"a namespace where there is none": create("BackupBucket", "{namespace: a}",
			"Forbidden metadata.namespace: Forbidden: not allowed on this type"),
		"a generation below zero": create("Worker", "{generation: -1}", "Invalid metadata.generation"),
		"labels, annotations, finalizers": create("Worker", "{labels: {'a b': c}, annotations: {'a b': c}, finalizers: [a b]}",
			"Invalid metadata.labels", "Invalid metadata.annotations", "Invalid metadata.finalizers"),
		"an owner without anything": create("Worker", "{ownerReferences: [{}]}", "Required metadata.ownerReferences[0].apiVersion",
			"Required metadata.ownerReferences[0].kind", "Required metadata.ownerReferences[0].name", "Required metadata.ownerReferences[0].uid"),
		"two finalizers that conflict": create("Worker", "{finalizers: [orphan, foregroundDeletion]}", "Invalid metadata.finalizers"),
		"managed fields as they are stored": create("Worker", "{managedFields: [{manager: m, operation: Update, apiVersion: a/v1, "+
			"fieldsType: FieldsV1, time: 2026-01-02T03:04:05Z, fieldsV1: {'f:spec': {}}}]}"),
		"no resource version": update("{resourceVersion: ''}",
			`Invalid metadata.resourceVersion: Invalid value: "": must be specified for an update`),
		"the generation shrinks": update("{generation: 0}", "Invalid metadata.generation: Invalid value: 0: must not be decremented"),
		"another object": update("{uid: other, creationTimestamp: 2026-01-02T03:04:06Z}", "Invalid metadata.uid",
			"Invalid metadata.creationTimestamp"),
		"a null time": {kind: "Worker", object: "metadata: {creationTimestamp: null}", impossible: true},
		"a new finalizer on what is being deleted": {
			kind: "Worker", updated: true, deleting: true, impossible: true,
			object: "metadata: {finalizers: [espalier.dev/test, espalier.dev/more]}",
			want:   []string{"Forbidden metadata.finalizers"},
		},
	}
}
