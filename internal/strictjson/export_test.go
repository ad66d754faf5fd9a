package strictjson

import "reflect"

// Thoroughly is Unmarshal without its shortcut, and Quickly the shortcut alone.
var Thoroughly = thoroughly

func Quickly(data []byte, dst any) bool { return quickly(data, reflect.ValueOf(dst).Elem()) }
