package rollout

import (
	"errors"
	"strings"
)

// bound is one combination of entities as the variables of an expression. A nil entity is unbound:
// its variables are unknown, so that an expression can be asked whether the others alone decide it.
type bound struct {
	resource    *Resource
	environment *Environment
	deployment  *Deployment
	version     *Version
}

// Lookup returns the value of a variable of the default schema of package selector.
func (b *bound) Lookup(name string) (any, bool) {
	if name == "" {
		return nil, false
	}
	// The first letter says which entity is meant; the entity compares the whole name.
	switch name[0] {
	case 'd':
		return b.deployment.variable(name)
	case 'r':
		return b.resource.variable(name)
	case 'v':
		return b.version.variable(name)
	case 'e':
		return b.environment.variable(name)
	}
	return nil, false
}

func (r *Resource) variable(name string) (any, bool) {
	if r == nil {
		return nil, false
	}
	switch name {
	case "resource.metadata":
		return r.Metadata, true
	case "resource.id":
		return r.ID, true
	case "resource.name":
		return r.Name, true
	case "resource.kind":
		return r.Kind, true
	case "resource.identifier":
		return r.Identifier, true
	case "resource.version":
		return r.Version, true
	}
	return nil, false
}

func (d *Deployment) variable(name string) (any, bool) {
	if d == nil {
		return nil, false
	}
	switch name {
	case "deployment.metadata":
		return d.Metadata, true
	case "deployment.id":
		return d.ID, true
	case "deployment.name":
		return d.Name, true
	case "deployment.slug":
		return d.Slug, true
	}
	return nil, false
}

func (e *Environment) variable(name string) (any, bool) {
	if e == nil {
		return nil, false
	}
	switch name {
	case "environment.metadata":
		return e.Metadata, true
	case "environment.id":
		return e.ID, true
	case "environment.name":
		return e.Name, true
	}
	return nil, false
}

func (v *Version) variable(name string) (any, bool) {
	if v == nil {
		return nil, false
	}
	switch name {
	case "version.metadata":
		return v.Metadata, true
	case "version.id":
		return v.ID, true
	case "version.name":
		return v.Name, true
	case "version.tag":
		return v.Tag, true
	case "version.status":
		return string(v.Status), true
	case "version.createdAt":
		return v.CreatedAt, true
	}
	return nil, false
}

// variable is a string variable of a resource, as groupBy names one: resource.kind, or one key of
// its metadata.
type variable struct {
	field string // id, name, kind, identifier, version; metadata if key is set
	key   string
}

func parseVariable(text string) (*variable, error) {
	field, ok := strings.CutPrefix(text, "resource.")
	if !ok {
		return nil, errors.New("is not a variable of a resource: write resource.kind or resource.metadata['zone']")
	}
	switch field {
	case "id", "name", "kind", "identifier", "version":
		return &variable{field: field}, nil
	}
	if rest, ok := strings.CutPrefix(field, "metadata["); ok {
		for _, quote := range []string{"'", `"`} {
			key, opened := strings.CutPrefix(rest, quote)
			key, closed := strings.CutSuffix(key, quote+"]")
			if opened && closed && key != "" && !strings.ContainsAny(key, quote+`\`) {
				return &variable{field: "metadata", key: key}, nil
			}
		}
	} else if key, ok := strings.CutPrefix(field, "metadata."); ok && plainName(key) {
		return &variable{field: "metadata", key: key}, nil
	}
	return nil, errors.New("is not a string variable of a resource: write resource.kind or resource.metadata['zone']")
}

func plainName(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || '9' < r) {
			return false
		}
	}
	return name != ""
}

// of returns the value for one resource. A missing key gives the empty value, so that resources
// without it are limited together and not exempt. Without a variable all resources have the empty
// value.
func (v *variable) of(r *Resource) string {
	if v == nil {
		return ""
	}
	switch v.field {
	case "id":
		return r.ID
	case "name":
		return r.Name
	case "kind":
		return r.Kind
	case "identifier":
		return r.Identifier
	case "version":
		return r.Version
	}
	return r.Metadata[v.key]
}
