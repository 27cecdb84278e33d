// The oracle has a module of its own, so that Zino builds and tests without nlp.
module zino/services/mem/index/oracle

go 1.26.0

require (
	github.com/james-bowman/nlp v0.0.0-20210511120306-26d441fa0ded
	zino v0.0.0
)

require (
	github.com/armon/go-radix v1.0.0 // indirect
	github.com/blevesearch/snowballstem v0.9.0 // indirect
	github.com/james-bowman/sparse v0.0.0-20260216202247-495ee4f84d35 // indirect
	github.com/spaolacci/murmur3 v1.1.0 // indirect
	golang.org/x/exp v0.0.0-20210220032938-85be41e4509f // indirect
	gonum.org/v1/gonum v0.8.2 // indirect
)

replace zino => ../../../..
