package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	noopoteltrace "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	generatedopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// What clients of the test server say: those that may do everything, and those that may do what the
// roles in rbac.yaml allow.
const (
	token   = "test"
	limited = "limited"
)

// server is an API server for custom resources, in this process, on an etcd of its own. It can be
// stopped and started again at the same address.
type server struct {
	dir  string // certificates, and the data of etcd
	etcd *embed.Etcd
	url  string // of etcd
	port int

	handler http.Handler // what serves, without the network
	roles   []rbacv1.PolicyRule
	refused sync.Map // what limited clients asked for and may not do
	stop    context.CancelFunc
	stopped chan error
}

func newServer() (*server, error) {
	dir, err := os.MkdirTemp("", "tranche-controller")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	if s.roles, err = roles(); err != nil {
		return nil, err
	}
	for range 5 { // a port may be taken between looking and listening
		if err = s.startEtcd(); err == nil {
			break
		}
	}
	if err == nil {
		err = s.start()
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *server) startEtcd() error {
	held := make([]net.Listener, 2)
	var urls []url.URL
	for i := range held {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		held[i], urls = l, append(urls, url.URL{Scheme: "http", Host: l.Addr().String()})
	}
	for _, l := range held {
		l.Close()
	}
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(s.dir, "etcd")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls[:1], urls[:1]
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = urls[1:], urls[1:]
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs, cfg.UnsafeNoFsync = 10, 100, true
	cfg.LogLevel, cfg.ZapLoggerBuilder = "panic", embed.NewZapLoggerBuilder(zap.NewNop())
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	select {
	case <-etcd.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		etcd.Close()
		return errors.New("etcd is not ready after 30 s")
	}
	s.etcd, s.url = etcd, urls[0].String()
	return nil
}

// start starts the API server; for the second time at the address of the first.
func (s *server) start() error {
	o := options.NewCustomResourceDefinitionsServerOptions(io.Discard, io.Discard)
	registry := basecompatibility.NewComponentGlobalsRegistry() // the default one belongs to the process, and this is not the only server
	features := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if err := registry.Register(basecompatibility.DefaultKubeComponent, compatibility.DefaultKubeEffectiveVersionForTest(), features); err != nil {
		return err
	}
	o.ServerRunOptions.ComponentGlobalsRegistry = registry
	r := o.RecommendedOptions
	r.Authentication, r.Authorization, r.CoreAPI, r.Admission = nil, nil, nil, nil
	r.Features.EnablePriorityAndFairness = false
	r.Etcd.StorageConfig.Transport.ServerList = []string{s.url}
	listener, err := listen(s.port)
	if err != nil {
		return err
	}
	s.port = listener.Addr().(*net.TCPAddr).Port
	r.SecureServing.Listener, r.SecureServing.BindPort = listener, s.port
	r.SecureServing.ServerCert.CertDirectory = s.dir
	if err := r.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return err
	}
	generic := genericapiserver.NewRecommendedConfig(apiserver.Codecs)
	if err := errors.Join(o.Complete(), o.ServerRunOptions.ApplyTo(&generic.Config), r.ApplyTo(generic),
		o.APIEnablement.ApplyTo(&generic.Config, apiserver.DefaultAPIResourceConfigSource(), apiserver.Scheme)); err != nil {
		return err
	}
	definitions := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(generatedopenapi.GetOpenAPIDefinitions)
	generic.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, openapinamer.NewDefinitionNamer(apiserver.Scheme))
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, openapinamer.NewDefinitionNamer(apiserver.Scheme))
	generic.Authentication.Authenticator = bearertoken.New(authenticator.TokenFunc(func(_ context.Context, said string) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: said}}, said == token || said == limited, nil
	}))
	generic.Authorization.Authorizer = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() == limited && a.IsResourceRequest() && !s.allows(a) {
			s.refused.Store(fmt.Sprintf("%s %s.%s %s", a.GetVerb(), a.GetResource(), a.GetAPIGroup(), a.GetSubresource()), true)
			return authorizer.DecisionDeny, "no role allows it", nil
		}
		return authorizer.DecisionAllow, "", nil
	})
	config := apiserver.Config{GenericConfig: generic, ExtraConfig: apiserver.ExtraConfig{
		CRDRESTOptionsGetter: options.NewCRDRESTOptionsGetter(*r.Etcd, generic.ResourceTransformers, generic.StorageObjectCountTracker),
		ServiceResolver:      webhook.NewDefaultServiceResolver(),
		AuthResolverWrapper:  webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, generic.LoopbackClientConfig, noopoteltrace.NewTracerProvider()),
	}}
	completed := config.Complete()
	completed.GenericConfig.EnableDiscovery = true // Complete switches it off, for servers behind another one
	definitionsServer, err := completed.New(genericapiserver.NewEmptyDelegate())
	if err != nil {
		return err
	}
	definitionsServer.GenericAPIServer.ShutdownTimeout = 200 * time.Millisecond // watches stay open
	s.handler = definitionsServer.GenericAPIServer.Handler
	ctx, cancel := context.WithCancel(context.Background())
	s.stop, s.stopped = cancel, make(chan error, 1)
	go func() { s.stopped <- definitionsServer.GenericAPIServer.PrepareRun().RunWithContext(ctx) }()
	return s.waitReady()
}

// roles reads what the roles in rbac.yaml allow.
func roles() (rules []rbacv1.PolicyRule, err error) {
	file, err := os.ReadFile("rbac.yaml")
	if err != nil {
		return nil, err
	}
	for _, document := range strings.Split(string(file), "\n---\n") {
		var role rbacv1.ClusterRole // a Role has the same fields
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			return nil, err
		}
		rules = append(rules, role.Rules...)
	}
	return rules, nil
}

func (s *server) allows(a authorizer.Attributes) bool {
	resource := a.GetResource()
	if below := a.GetSubresource(); below != "" {
		resource += "/" + below
	}
	return slices.ContainsFunc(s.roles, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.APIGroups, a.GetAPIGroup()) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, a.GetVerb())
	})
}

func listen(port int) (l net.Listener, err error) {
	for range 100 { // the last owner of the port may still be closing
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return l, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, err
}

func (s *server) waitReady() error {
	get, err := rest.HTTPClientFor(s.config())
	if err != nil {
		return err
	}
	defer get.CloseIdleConnections()
	for range 600 {
		if answer, err := get.Get(s.config().Host + "/readyz"); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-s.stopped:
			return fmt.Errorf("the server ended: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return errors.New("the server is not ready after 30 s")
}

// halt stops the API server; its data stay.
func (s *server) halt() error {
	if s.stop == nil {
		return nil
	}
	s.stop()
	s.stop = nil
	return <-s.stopped
}

func (s *server) close() {
	_ = s.halt()
	if s.etcd != nil {
		s.etcd.Close()
	}
	os.RemoveAll(s.dir)
}

// config is that of a client without a rate limit.
func (s *server) config() *rest.Config {
	return &rest.Config{
		Host: fmt.Sprintf("https://127.0.0.1:%d", s.port), BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(s.dir, "apiserver.crt")},
	}
}

// installed returns a server with the custom resources.
func installed(tb testing.TB) (*server, error) {
	s, err := newServer()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := Install(ctx, newClient(tb, s)); err != nil {
		s.close()
		return nil, err
	}
	time.Sleep(2 * time.Second) // the first object of a kind within two seconds of its definition is answered two seconds later
	return s, nil
}

// shared is one server for all tests that do not stop it, started by the first of them.
var shared struct {
	once   sync.Once
	server *server
	err    error
}

func sharedServer(tb testing.TB) *server {
	tb.Helper()
	shared.once.Do(func() { shared.server, shared.err = installed(tb) })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server
}

var makeScheme = sync.OnceValues(NewScheme)

func scheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	scheme, err := makeScheme()
	if err != nil {
		tb.Fatal(err)
	}
	return scheme
}

// newClient returns a client without a cache.
func newClient(tb testing.TB, s *server) client.WithWatch {
	tb.Helper()
	c, err := client.NewWithWatch(s.config(), client.Options{Scheme: scheme(tb)})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// newDirectClient returns a client that calls the server without a network between them, for tests
// of very many calls. It cannot watch.
func newDirectClient(tb testing.TB, s *server) client.Client {
	tb.Helper()
	config := s.config()
	config.TLSClientConfig = rest.TLSClientConfig{}
	config.Transport = roundTripper(func(request *http.Request) (*http.Response, error) {
		if err := request.Context().Err(); err != nil {
			return nil, err
		}
		if request = request.Clone(request.Context()); request.Body == nil {
			request.Body = http.NoBody // as a server has it
		}
		answer := httptest.NewRecorder()
		s.handler.ServeHTTP(answer, request)
		return answer.Result(), nil
	})
	c, err := client.New(config, client.Options{Scheme: scheme(tb)})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

var namespaces atomic.Int64

// newNamespace returns a name that no other test uses. The server knows no namespaces as objects
// and asks for none.
func newNamespace() string { return fmt.Sprint("n", namespaces.Add(1)) }

func inNamespace[T client.Object](object T, namespace, name string) T {
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}
