package rollout

import (
	"reflect"
	"testing"
	"time"
)

// TestVerdictsThatDiffer: what several members of a bracket wait for is said once, but only if it
// is the same in every field there is: of two that differ in anything, the second would be kept
// from whoever has to open it.
func TestVerdictsThatDiffer(t *testing.T) {
	at := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	verdict := func() Verdict {
		return Verdict{Status: Pending, Reason: "r", Rule: "x", Until: at, On: []Condition{{Kind: OnJob}}, Data: &Data{Position: 1, Names: []string{"a"}}}
	}
	one, other := verdict(), verdict()
	if other.Until = at.In(time.FixedZone("", 3600)); !one.Equal(other) {
		t.Error("two that say the same are two")
	}
	alone := verdict()
	if alone.Data = nil; alone.Equal(one) || one.Equal(alone) {
		t.Error("one without data is the same as one with")
	}
	if second := verdict(); true {
		if second.Data = nil; !alone.Equal(second) {
			t.Error("two without data are two")
		}
	}
	// differ changes every field of what it is given in turn, and asks each time.
	var differ func(name string, of func(*Verdict) reflect.Value)
	differ = func(name string, of func(*Verdict) reflect.Value) {
		base := verdict()
		for k := range of(&base).NumField() {
			changed := verdict()
			field, path := of(&changed).Field(k), name+of(&base).Type().Field(k).Name
			switch field.Interface().(type) {
			case time.Time:
				field.Set(reflect.ValueOf(at.Add(1)))
			case *Data:
				differ(path+".", func(v *Verdict) reflect.Value { return reflect.ValueOf(v.Data).Elem() })
				continue
			case []Condition:
				differ(path+".", func(v *Verdict) reflect.Value { return reflect.ValueOf(v.On).Index(0) })
				field.SetZero()
			case []string:
				field.Set(reflect.ValueOf([]string{"b"}))
			case int:
				field.SetInt(7)
			default:
				field.SetString("changed")
			}
			if base.Equal(changed) {
				t.Errorf("two with another %s are the same", path)
			}
		}
	}
	differ("", func(v *Verdict) reflect.Value { return reflect.ValueOf(v).Elem() })
}
