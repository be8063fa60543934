package health

import (
	"fmt"

	corev1beta1 "github.com/espalier-dev/espalier/api/core/v1beta1"
	operatorv1alpha1 "github.com/espalier-dev/espalier/api/operator/v1alpha1"
	resourcesv1alpha1 "github.com/espalier-dev/espalier/api/resources/v1alpha1"
	"github.com/espalier-dev/espalier/internal/garden/extension"
	"github.com/espalier-dev/espalier/internal/garden/extension/installations"
)

// facts are the inputs of the conditions of an Extension.
type facts struct {
	installations []installations.Installation
	// known is false if the virtual cluster does not answer.
	known bool
	// sets are the ManagedResources by name; nil for one that does not exist.
	sets map[string]*resourcesv1alpha1.ManagedResource
}

// verdict is a condition. An empty status removes it.
type verdict struct {
	condition       corev1beta1.ConditionType
	status          corev1beta1.ConditionStatus
	reason, message string
}

// parts says whether the conditions RequiredRuntime and RequiredVirtual of an Extension are true.
type parts struct{ runtime, virtual bool }

func partsOf(e *operatorv1alpha1.Extension) parts {
	return parts{
		runtime: corev1beta1.IsTrue(e.Status.Conditions, operatorv1alpha1.ExtensionRequiredRuntime),
		virtual: corev1beta1.IsTrue(e.Status.Conditions, operatorv1alpha1.ExtensionRequiredVirtual),
	}
}

// check returns the verdicts about an Extension.
func check(e *operatorv1alpha1.Extension, f facts) []verdict {
	has := partsOf(e)
	seeds := verdict{condition: operatorv1alpha1.ControllerInstallationsHealthy}
	if has.virtual {
		seeds = checkInstallations(f)
	}
	runtime := verdict{condition: operatorv1alpha1.ExtensionRuntimeHealthy}
	if has.runtime {
		runtime = f.checkSets(operatorv1alpha1.ExtensionRuntimeHealthy, operatorv1alpha1.ReasonExtensionRunning,
			operatorv1alpha1.ReasonExtensionNotRunning, extension.RuntimeSet(e))
	}
	admission := verdict{condition: operatorv1alpha1.ExtensionAdmissionHealthy}
	if names := extension.AdmissionSets(e); len(names) > 0 {
		admission = f.checkSets(operatorv1alpha1.ExtensionAdmissionHealthy, operatorv1alpha1.ReasonAdmissionRunning,
			operatorv1alpha1.ReasonAdmissionNotRunning, names...)
	}
	return []verdict{seeds, runtime, admission}
}

// Conditions of ControllerInstallations, and the status that they have if the extension is healthy in the Seed.
var installationConditions = []struct {
	of   corev1beta1.ConditionType
	want corev1beta1.ConditionStatus
}{
	{"Valid", corev1beta1.ConditionTrue},
	{"Installed", corev1beta1.ConditionTrue},
	{"Healthy", corev1beta1.ConditionTrue},
	{"Progressing", corev1beta1.ConditionFalse},
}

func checkInstallations(f facts) verdict {
	about := operatorv1alpha1.ControllerInstallationsHealthy
	if !f.known {
		return verdict{
			about, corev1beta1.ConditionUnknown, operatorv1alpha1.ReasonInstallationsNotRunning,
			"ControllerInstallations cannot be read, because the virtual cluster does not answer",
		}
	}
	for _, each := range f.installations {
		for _, wanted := range installationConditions {
			found := corev1beta1.GetCondition(each.Conditions, wanted.of)
			if found != nil && found.Status == wanted.want {
				continue
			}
			message := "is not known yet"
			if found != nil {
				message = fmt.Sprintf("is %s: %s", found.Status, found.Message)
			}
			status := corev1beta1.ConditionFalse
			if wanted.of == "Progressing" {
				status = corev1beta1.ConditionProgressing
			}
			return verdict{about, status, operatorv1alpha1.ReasonInstallationsNotRunning, fmt.Sprintf(
				"condition %s of ControllerInstallation %q for Seed %q %s", wanted.of, each.Name, each.Seed, message)}
		}
	}
	return verdict{about, corev1beta1.ConditionTrue, operatorv1alpha1.ReasonInstallationsRunning, "All ControllerInstallations are healthy"}
}

// checkSets checks ManagedResources in their order.
func (f facts) checkSets(about corev1beta1.ConditionType, healthy, unhealthy string, names ...string) verdict {
	for _, name := range names {
		set := f.sets[name]
		if set == nil {
			return verdict{about, corev1beta1.ConditionFalse, unhealthy, fmt.Sprintf("ManagedResource %q does not exist", name)}
		}
		if found := problemOf(set); found.message != "" {
			status := corev1beta1.ConditionFalse
			if found.progressing {
				status = corev1beta1.ConditionProgressing
			}
			return verdict{about, status, unhealthy, fmt.Sprintf("ManagedResource %q: %s", name, found.message)}
		}
	}
	return verdict{about, corev1beta1.ConditionTrue, healthy, "All ManagedResources are healthy"}
}
