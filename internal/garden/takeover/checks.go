package takeover

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/component/etcd"
	"github.com/espalier-dev/espalier/internal/garden/component/gardenerapiserver"
	"github.com/espalier-dev/espalier/internal/garden/component/kubeapiserver"
	"github.com/espalier-dev/espalier/internal/secrets"
)

// checks find missing objects, and mistakes of the Garden itself.
var checks = []func(Inventory, *Report){checkCredentials, checkVolumes, checkFinalizers}

// credentials are the credentials that must stay the same, with the consequences of their loss.
var credentials = []struct{ name, loss string }{
	{kubeapiserver.Authority, "clients do not trust the API server any more, so all kubeconfigs, those of gardenlets included, end"},
	{kubeapiserver.ClientAuthority, "the API server refuses all client certificates, those of gardenlets included"},
	{kubeapiserver.FrontProxyAuthority, "extension API servers that know the former authority refuse the API server"},
	{kubeapiserver.ServiceAccountKeyName, "all tokens of ServiceAccounts of the virtual cluster end"},
	{kubeapiserver.EncryptionKeyName, "encrypted objects of the virtual cluster, such as Secrets, cannot be read any more"},
	{gardenerapiserver.EncryptionKeyName, "encrypted objects of Gardener, such as ShootStates, cannot be read any more"},
}

// Credentials returns the logical names of the credentials that a garden must keep when it is taken over.
func Credentials() []string {
	names := make([]string, 0, len(credentials))
	for _, each := range credentials {
		names = append(names, each.name)
	}
	return names
}

// checkCredentials reports credentials that the operator would generate anew. It also reports credentials for which there are Secrets of
// several generations although the status of the Garden contains no rotation: the operator would not complete such a rotation.
func checkCredentials(in Inventory, r *Report) {
	for _, each := range credentials {
		generations, donors := 0, 0
		for _, o := range in.Runtime {
			switch {
			case o.GetKind() != "Secret" || o.GetNamespace() != in.Namespace:
			case in.manages(o) && o.GetLabels()[secrets.LabelName] == each.name:
				generations++
			case o.GetLabels()[secrets.LabelUseDataFor] == each.name:
				donors++
			}
		}
		switch {
		case generations+donors == 0:
			r.Lost = append(r.Lost, Finding{Cluster: Runtime, Blocks: true, Message: fmt.Sprintf("%s: no Secret has this credential, so a new one "+
				"would be generated, and %s. Label the Secret that has it: kubectl -n %s label secret NAME %s=%[1]s",
				each.name, each.loss, in.Namespace, secrets.LabelUseDataFor)})
		case generations > 1 && !knowsRotation(in.Garden):
			r.Lost = append(r.Lost, Finding{Cluster: Runtime, Blocks: true, Message: fmt.Sprintf("%s: there are Secrets of %d generations, and the "+
				"status of the Garden knows no rotation, so the operator would not complete it, and could delete the key in use: restore "+
				"status.credentials of the Garden first", each.name, generations)})
		}
	}
}

func knowsRotation(garden *operatorv1alpha1.Garden) bool {
	return garden.Status.Credentials != nil && garden.Status.Credentials.Rotation != nil
}

// checkVolumes reports etcds that would start empty.
func checkVolumes(in Inventory, r *Report) {
	for _, role := range []etcd.Role{etcd.Main, etcd.Events} {
		exists := slices.ContainsFunc(in.objects(), func(o object) bool {
			return o.cluster == Runtime && (o.GetKind() == "Etcd" && o.GetName() == role.Name() ||
				o.GetKind() == "PersistentVolumeClaim" && role.HasVolume(o.GetName()))
		})
		if exists {
			continue
		}
		f := Finding{Cluster: Runtime, Message: fmt.Sprintf("Etcd %s starts without Events and other objects of its own: no volume has its name",
			role.Name())}
		if role == etcd.Main {
			f.Blocks = !hasBackup(in.Garden)
			f.Message = fmt.Sprintf("Etcd %s starts empty, and everything in the virtual cluster is lost: no PersistentVolumeClaim is called "+
				"%s. Give the volume of the former etcd to a claim of this name, or set spec.virtualCluster.etcd.main.backup to the bucket with "+
				"its snapshots", role.Name(), role.Claim())
			if !f.Blocks {
				f.Message = fmt.Sprintf("Etcd %s restores the last snapshot in the bucket of the Garden, and everything after it is lost: stop "+
					"the former API servers, and take a full snapshot, before the take-over. Without a snapshot below the prefix of the Etcd, it "+
					"starts empty", role.Name())
			}
		}
		r.Lost = append(r.Lost, f)
	}
}

func hasBackup(garden *operatorv1alpha1.Garden) bool {
	settings := ptr.Deref(garden.Spec.VirtualCluster.ETCD, operatorv1alpha1.ETCD{})
	return ptr.Deref(settings.Main, operatorv1alpha1.ETCDMain{}).Backup != nil
}

// checkFinalizers reports finalizers of the Garden that no controller of garden-operator removes.
func checkFinalizers(in Inventory, r *Report) {
	for _, each := range in.Garden.Finalizers {
		if !slices.Contains(knownFinalizers, each) {
			r.Unmanaged = append(r.Unmanaged, Finding{
				Object: "Garden " + in.Garden.Name, Cluster: Runtime,
				Message: "garden-operator does not remove the finalizer " + each + ": a deletion of the Garden would never complete",
			})
		}
	}
}
