package extensionvalidation

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

type containerRuntimeSpec struct {
	BinaryPath  string     `json:"binaryPath"`
	WorkerPool  poolChoice `json:"workerPool"`
	DefaultSpec `json:",inline"`
}

type poolChoice struct {
	Name     string               `json:"name"`
	Selector metav1.LabelSelector `json:"selector"`
}

func containerRuntimes() rules[containerRuntimeSpec, unread] {
	return rules[containerRuntimeSpec, unread]{
		namespaced: true,
		check: func(runtime *object[containerRuntimeSpec, unread], found *findings) {
			found.require(specPath("type"), runtime.Spec.Type)
			found.require(specPath("binaryPath"), runtime.Spec.BinaryPath)
			found.require(specPath("workerPool", "name"), runtime.Spec.WorkerPool.Name)
		},
		keep: func(now, before *containerRuntimeSpec, found *findings) {
			found.keep(specPath("type"), now.Type, before.Type)
			found.keep(specPath("workerPool", "name"), now.WorkerPool.Name, before.WorkerPool.Name)
		},
	}
}
