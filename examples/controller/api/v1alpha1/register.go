package v1alpha1

import (
	"embed"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// GroupVersion returns the group and version of all kinds of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "rollout.tranche.dev", Version: "v1alpha1"}
}

// AddToScheme registers all kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(),
		&RolloutPolicy{}, &RolloutPolicyList{},
		&NodeDeployment{}, &NodeDeploymentList{},
		&Release{}, &ReleaseList{},
		&Machine{}, &MachineList{},
		&NodeJob{}, &NodeJobList{},
		&ReleaseApproval{}, &ReleaseApprovalList{},
		&RuleOverride{}, &RuleOverrideList{},
		&DeploymentFreeze{}, &DeploymentFreezeList{},
		&BracketCommand{}, &BracketCommandList{},
		&PlannerState{}, &PlannerStateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}

//go:embed crds/*.yaml
var manifests embed.FS

// CRDs returns the definitions of all kinds, from the YAML files of this package, in order of their
// names. They belong to the caller.
func CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := manifests.ReadDir("crds")
	if err != nil {
		return nil, err
	}
	list := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(files))
	for _, file := range files {
		data, err := manifests.ReadFile("crds/" + file.Name())
		if err != nil {
			return nil, err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, definition); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		list = append(list, definition)
	}
	return slices.Clip(list), nil
}
