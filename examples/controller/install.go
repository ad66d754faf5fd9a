package controller

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
)

// NewScheme returns a scheme with everything that a manager of this controller needs.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// Install creates or updates the definitions of the custom resources and waits until the server
// serves them, or until the context ends.
func Install(ctx context.Context, c client.Client) error {
	definitions, err := v1alpha1.CRDs()
	if err != nil {
		return err
	}
	for _, wanted := range definitions {
		var found apiextensionsv1.CustomResourceDefinition
		switch err := c.Get(ctx, client.ObjectKeyFromObject(wanted), &found); {
		case apierrors.IsNotFound(err):
			err = c.Create(ctx, wanted)
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("controller: install %s: %w", wanted.Name, err)
			}
		case err != nil:
			return fmt.Errorf("controller: install %s: %w", wanted.Name, err)
		default:
			found.Spec = wanted.Spec
			if err := c.Update(ctx, &found); err != nil {
				return fmt.Errorf("controller: install %s: %w", wanted.Name, err)
			}
		}
	}
	for _, wanted := range definitions {
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			var found apiextensionsv1.CustomResourceDefinition
			if err := c.Get(ctx, client.ObjectKeyFromObject(wanted), &found); err != nil {
				return false, err
			}
			for _, condition := range found.Status.Conditions {
				if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
					return true, nil
				}
			}
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("controller: install %s: it is not established: %w", wanted.Name, err)
		}
	}
	return nil
}
