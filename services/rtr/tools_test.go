package rtr

import (
	"zino/proto"
)

// oneTool is a list of one tool.
var oneTool = proto.Raw(`[{"type":"function","function":{"name":"f","description":"does it","parameters":{"type":"object","properties":{"n":{"type":"integer"}}}}}]`)
