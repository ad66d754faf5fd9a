package controller

import (
	"context"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
)

// TestInstallTogether: of two programs that install at the same time both succeed, and in the end
// the definitions are those of this program. Between any read of a definition and the write that
// rests on it, another program writes it first: an older one, and the server, which reports in the
// status of a definition what has become of it.
func TestInstallTogether(t *testing.T) {
	wanted, err := v1alpha1.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		why   string
		there bool
	}{
		{"somebody else creates a definition first", false},
		{"somebody else updates a definition first", true},
	} {
		t.Run(row.why, func(t *testing.T) {
			// other writes a definition as an older program, and says that it is served.
			other := func(c client.Client, name string) {
				var found apiextensionsv1.CustomResourceDefinition
				err := c.Get(t.Context(), client.ObjectKey{Name: name}, &found)
				if client.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
				absent := err != nil
				found.Name = name
				found.Spec.Group = "of an older program"
				found.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
				if absent {
					err = c.Create(t.Context(), &found)
				} else {
					err = c.Update(t.Context(), &found)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			overtaken := map[string]bool{}
			overtake := func(c client.Client, object client.Object) {
				if !overtaken[object.GetName()] {
					overtaken[object.GetName()] = true
					other(c, object.GetName())
				}
			}
			c := fake.NewClientBuilder().WithScheme(scheme(t)).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
					overtake(c, object)
					return c.Create(ctx, object, options...)
				},
				Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
					overtake(c, object)
					return c.Update(ctx, object, options...)
				},
			}).Build()
			for _, definition := range wanted {
				if row.there {
					overtaken[definition.Name] = true
					other(c, definition.Name)
					overtaken[definition.Name] = false
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := Install(ctx, c); err != nil {
				t.Fatal(err)
			}
			for _, definition := range wanted {
				var found apiextensionsv1.CustomResourceDefinition
				if err := c.Get(ctx, client.ObjectKeyFromObject(definition), &found); err != nil {
					t.Fatal(err)
				}
				if found.Spec.Group != definition.Spec.Group || !overtaken[definition.Name] {
					t.Errorf("%s is %q in the end", definition.Name, found.Spec.Group)
				}
			}
		})
	}
}
