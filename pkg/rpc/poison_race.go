//go:build race

package rpc

const poisoning = true
