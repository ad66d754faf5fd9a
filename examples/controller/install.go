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
	"k8s.io/client-go/util/retry"
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
// serves them, or until the context ends. A definition that was served before and is changed is not
// waited for: each server goes over to it when it hears of the change, and nothing says when all of
// them have. Several programs may install at once: whoever writes last wins.
func Install(ctx context.Context, c client.Client) error {
	definitions, err := v1alpha1.CRDs()
	if err != nil {
		return err
	}
	for _, wanted := range definitions {
		err := retry.OnError(retry.DefaultBackoff, overtaken, func() error { return put(ctx, c, wanted) })
		if err != nil {
			return fmt.Errorf("controller: install %s: %w", wanted.Name, err)
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

// put creates a definition, or updates it as it was read. If somebody else was quicker, another
// program that installs or the server that reports in the status of the definition, it is an error
// of which overtaken is true.
func put(ctx context.Context, c client.Client, wanted *apiextensionsv1.CustomResourceDefinition) error {
	var found apiextensionsv1.CustomResourceDefinition
	switch err := c.Get(ctx, client.ObjectKeyFromObject(wanted), &found); {
	case apierrors.IsNotFound(err):
		return c.Create(ctx, wanted.DeepCopy())
	case err != nil:
		return err
	}
	found.Spec = wanted.Spec
	return c.Update(ctx, &found)
}

func overtaken(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
