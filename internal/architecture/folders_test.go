package architecture_test

import "github.com/espalier-dev/espalier/internal/deployable"

// layout classifies all folders. A folder that it does not name fails the tests.
type layout struct {
	// shared are the library packages, by their folder below internal/. All packages except those in api/ may import them. They import no
	// family.
	shared []string
	// families are the controller families, by their folder below internal/; packages inside a family need no entry.
	families []string
	// binaries are the folders of cmd/, each with the family that runs in its process.
	binaries map[string]string
	// guests are the folders of other families whose commands a binary offers, too.
	guests map[string][]string
	// pure are the folders below internal/ whose files only compute.
	pure []string
}

// project returns the layout of this repository. Package deployable lists binaries and families.
func project() layout {
	l := layout{
		shared: []string{
			"admission/admissiontest",
			"admission/certificates",
			"admission/confirmation",
			"admission/patch",
			"admission/registration",
			"admission/review",
			"admission/reviewtest",
			"admission/serving",
			"apply",
			"apply/difference",
			"apply/fields",
			"apply/inventory",
			"apply/manifest",
			"apply/merge",
			"apply/observe",
			"architecture",
			"chart",
			"chart/charttest",
			"chart/placeholder",
			"chart/registry",
			"config",
			"conflict",
			"deployable",
			"egress",
			"excerpt",
			"flow",
			"gardenaccess",
			"gardenlet",
			"gardenstatus",
			"health",
			"process",
			"reflector",
			"repair",
			"rollout",
			"secrets",
			"secrets/config",
			"secrets/manager",
		},
		pure: []string{
			"apply/difference",
			"apply/fields",
			"apply/inventory",
			"apply/manifest",
			"apply/merge",
			"csr/rules",
			"egress",
			"garden/auditpolicy",
			"garden/component",
			"garden/components",
			"garden/defaulting",
			"garden/images",
			"garden/validation",
			"garden/values",
			"garden/versions",
			"gardenaccess",
			"kubectl/view",
			"managedresource/plan",
			"secrets/config",
			"webhook/handlers",
		},
	}
	l.binaries = map[string]string{}
	for _, each := range deployable.All() {
		l.binaries[each.Name] = each.Family
		l.families = append(l.families, each.Family)
	}
	// Tools of users run in no cluster, so package deployable does not list them.
	l.binaries["kubectl-espalier"] = "kubectl"
	l.families = append(l.families, "kubectl")
	l.guests = map[string][]string{"kubectl-espalier": {"internal/garden/plan", "internal/garden/upgrade"}}
	return l
}
