//go:build !race

package rpc

const poisoning = false
