package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of the kinds in this package.
const GroupName = "seedmanagement.gardener.cloud"

// SchemeGroupVersion is the group and version of the kinds in this package.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// AddToScheme adds the kinds of this package to scheme. It can be put into a runtime.SchemeBuilder.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &Gardenlet{}, &GardenletList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
