package extension

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
)

func TestOnlyGardensInDeletionAbandonTheirVirtualCluster(t *testing.T) {
	g := NewWithT(t)
	plain := &operatorv1alpha1.Garden{}
	plain.Spec.VirtualCluster.Gardener.ClusterIdentity = "garden-1"
	annotated := plain.DeepCopy()
	annotated.Annotations = map[string]string{"espalier.dev/abandon-virtual-cluster": "garden-1"}
	g.Expect(abandons(annotated)).To(BeFalse())
	deleting := func(garden *operatorv1alpha1.Garden) *operatorv1alpha1.Garden {
		garden = garden.DeepCopy()
		garden.DeletionTimestamp = ptr.To(metav1.Now())
		return garden
	}
	g.Expect(abandons(deleting(plain))).To(BeFalse())
	g.Expect(abandons(deleting(&operatorv1alpha1.Garden{}))).To(BeFalse())
	g.Expect(abandons(deleting(annotated))).To(BeTrue())
	g.Expect(abandons(nil)).To(BeTrue())

	g.Expect(gardens().Update(event.UpdateEvent{ObjectOld: deleting(plain), ObjectNew: deleting(annotated)})).To(BeTrue())
	g.Expect(gardens().Update(event.UpdateEvent{ObjectOld: plain, ObjectNew: annotated})).To(BeFalse())
}
