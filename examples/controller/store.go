package controller

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/examples/controller/api/v1alpha1"
)

// LabelFamily is set on every [v1alpha1.PlannerState]: a name made of its key up to the first
// slash. It lets a list of one family leave the others on the server.
const LabelFamily = "rollout.tranche.dev/family"

// pageSize is how many records are listed at once. All pages are of one revision of the server.
const pageSize = 500

// attempts bounds how often a list is begun again because the server forgot its revision between
// two pages.
const attempts = 4

// Store is a [bracket.Store] of custom resources: one [v1alpha1.PlannerState] per key, compared and
// swapped by its resourceVersion. It is safe for concurrent use.
//
// A revision is the resourceVersion as a number. Kubernetes promises since 1.35 that
// resourceVersions of one kind can be compared as numbers; a server that answers with anything else
// gets an error, never a guess. A value may have at most what the server accepts in one request,
// about 1.5 MB with base64; a greater one is the server's error.
//
// A list need not be newer than what the same store has read and written itself. It says so to the
// server, which then answers from its watch cache at once; a list that must be the newest waits
// there for up to 0.1 s. After a conflict the next list asks for the newest all the same.
type Store struct {
	reader    client.Reader
	writer    client.Writer
	namespace string

	seen   atomic.Int64 // the newest revision that was read or written; 0: the next list must be the newest
	behind atomic.Bool  // somebody else wrote since: the next list must be the newest too
}

var _ bracket.Store = (*Store)(nil)

// NewStore returns the store of a namespace. The reader must ask the server and not a cache, as
// manager.Manager.GetAPIReader does: a planner that reads what it replaced plans from a past that
// it made itself.
func NewStore(reader client.Reader, writer client.Writer, namespace string) *Store {
	return &Store{reader: reader, writer: writer, namespace: namespace}
}

// saw notes a revision that this store must not fall behind.
func (s *Store) saw(revision int64) {
	for {
		old := s.seen.Load()
		if revision <= old || s.seen.CompareAndSwap(old, revision) {
			return
		}
	}
}

// errKey is returned for a key that no store takes: names in the namespace are too long together.
var errKey = errors.New("must be 1 to 1024 bytes of UTF-8: shorten the rule's id, or the name of the environment")

func checkKey(key string) error {
	if key == "" || len(key) > 1024 || !utf8.ValidString(key) {
		return fmt.Errorf("controller: key %.80q of %d bytes: %w", key, len(key), errKey)
	}
	return nil
}

// family returns the label of all keys that start with prefix; false if they may have several.
func family(prefix string) (string, bool) {
	first, _, whole := strings.Cut(prefix, "/")
	return name(first), whole
}

func (s *Store) object(key string) *v1alpha1.PlannerState {
	label, _ := family(key + "/")
	return &v1alpha1.PlannerState{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name(key), Labels: map[string]string{LabelFamily: label}},
		Spec:       v1alpha1.PlannerStateSpec{Key: key},
	}
}

// Load implements [bracket.Store].
func (s *Store) Load(ctx context.Context, key string) ([]byte, int64, error) {
	if err := errors.Join(ctx.Err(), checkKey(key)); err != nil {
		return nil, 0, err
	}
	object := s.object(key)
	switch err := s.reader.Get(ctx, client.ObjectKeyFromObject(object), object); {
	case apierrors.IsNotFound(err):
		return nil, 0, bracket.ErrNotFound
	case err != nil:
		return nil, 0, fmt.Errorf("controller: load %q: %w", key, err)
	}
	entry, err := decode(object)
	if err == nil && entry.Key != key {
		err = fmt.Errorf("controller: load %q: %s holds the key %q: somebody else wrote it", key, object.Name, entry.Key)
	}
	if err != nil {
		return nil, 0, err
	}
	s.saw(entry.Revision)
	return entry.Value, entry.Revision, nil
}

// Save implements [bracket.Store].
func (s *Store) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	if err := errors.Join(ctx.Err(), checkKey(key)); err != nil {
		return 0, err
	}
	if revision < 0 {
		return 0, bracket.ErrConflict // no object has it, and the server does not take it for a number
	}
	object := s.object(key)
	if object.Spec.Encoding, object.Spec.Value = v1alpha1.EncodingText, string(value); !utf8.Valid(value) {
		object.Spec.Encoding, object.Spec.Value = v1alpha1.EncodingBase64, base64.StdEncoding.EncodeToString(value)
	}
	var err error
	if revision == 0 {
		err = s.writer.Create(ctx, object)
	} else {
		object.ResourceVersion = strconv.FormatInt(revision, 10)
		object.Spec.Replaces = object.ResourceVersion
		err = s.writer.Update(ctx, object)
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		s.behind.Store(true)
		return 0, bracket.ErrConflict
	case err != nil:
		s.behind.Store(true) // it may have arrived
		return 0, fmt.Errorf("controller: save %q: %w", key, err)
	}
	next, err := revisionOf(object)
	s.saw(next)
	return next, err
}

// Delete implements [bracket.Store].
func (s *Store) Delete(ctx context.Context, key string, revision int64) error {
	if err := errors.Join(ctx.Err(), checkKey(key)); err != nil {
		return err
	}
	at := strconv.FormatInt(revision, 10)
	defer s.behind.Store(true) // the answer does not say at which revision it was deleted
	switch err := s.writer.Delete(ctx, s.object(key), client.Preconditions{ResourceVersion: &at}); {
	case apierrors.IsNotFound(err):
		return bracket.ErrNotFound
	case apierrors.IsConflict(err):
		return bracket.ErrConflict
	case err != nil:
		return fmt.Errorf("controller: delete %q: %w", key, err)
	}
	return nil
}

// List implements [bracket.Store].
func (s *Store) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	options := client.ListOptions{Namespace: s.namespace}
	if label, single := family(prefix); single {
		options.LabelSelector = labels.SelectorFromSet(labels.Set{LabelFamily: label})
	}
	var entries []bracket.Entry
	var failed error
	for range attempts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		entries = nil
		failed = s.pages(ctx, options, func(entry bracket.Entry) {
			if strings.HasPrefix(entry.Key, prefix) {
				entries = append(entries, entry)
			}
		})
		if failed == nil {
			slices.SortFunc(entries, func(a, b bracket.Entry) int { return cmp.Compare(a.Key, b.Key) })
			return entries, nil
		}
		s.seen.Store(0) // not even that is certain: the server may have been restored from a backup
		if !apierrors.IsResourceExpired(failed) && !apierrors.IsTimeout(failed) {
			break
		}
		// Expired: the rest of the pages would be of another revision. Timeout: the server does not
		// get as far as this store has seen.
	}
	return nil, fmt.Errorf("controller: list %q: %w", prefix, failed)
}

// pages visits all records that the options select, at one revision.
func (s *Store) pages(ctx context.Context, options client.ListOptions, visit func(bracket.Entry)) error {
	options.Limit = pageSize
	options.Raw = &metav1.ListOptions{}
	if newest := s.behind.Swap(false); newest {
		s.seen.Store(0)
	} else if seen := s.seen.Load(); seen > 0 {
		options.Raw.ResourceVersion, options.Raw.ResourceVersionMatch = strconv.FormatInt(seen, 10), metav1.ResourceVersionMatchNotOlderThan
	}
	for {
		var page v1alpha1.PlannerStateList
		if err := s.reader.List(ctx, &page, &options); err != nil {
			return err
		}
		for i := range page.Items {
			entry, err := decode(&page.Items[i])
			if err != nil {
				return err
			}
			visit(entry)
		}
		if at, err := strconv.ParseInt(page.ResourceVersion, 10, 64); err == nil {
			s.saw(at)
		}
		if page.Continue == "" {
			return nil
		}
		options.Continue = page.Continue // it holds the revision
		options.Raw = &metav1.ListOptions{}
	}
}

func revisionOf(object *v1alpha1.PlannerState) (int64, error) {
	revision, err := strconv.ParseInt(object.ResourceVersion, 10, 64)
	if err != nil || revision < 1 {
		return 0, fmt.Errorf("controller: %s has the resourceVersion %q: must be a positive number, as Kubernetes promises since 1.35", object.Name, object.ResourceVersion)
	}
	return revision, nil
}

func decode(object *v1alpha1.PlannerState) (bracket.Entry, error) {
	revision, err := revisionOf(object)
	entry := bracket.Entry{Key: object.Spec.Key, Value: []byte(object.Spec.Value), Revision: revision}
	if err != nil {
		return entry, err
	}
	switch object.Spec.Encoding {
	case v1alpha1.EncodingText:
	case v1alpha1.EncodingBase64:
		if entry.Value, err = base64.StdEncoding.DecodeString(object.Spec.Value); err != nil {
			return entry, fmt.Errorf("controller: %s: spec.value: %w", object.Name, err)
		}
	default:
		return entry, fmt.Errorf("controller: %s: spec.encoding: %q is unknown: must be %s or %s", object.Name, object.Spec.Encoding, v1alpha1.EncodingText, v1alpha1.EncodingBase64)
	}
	return entry, nil
}
