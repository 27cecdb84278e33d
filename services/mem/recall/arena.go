package recall

import (
	"syscall"
	"unsafe"
)

// arena is a slice outside the heap, which the garbage collector would keep for a long
// time after a search: free returns it to the system at once. T has no pointers.
type arena[T any] struct {
	list   []T
	mapped []byte
}

func (a *arena[T]) push(v T) {
	if len(a.list) == cap(a.list) {
		a.grow(1)
	}
	a.list = append(a.list, v)
}

// grow makes room for n more elements.
func (a *arena[T]) grow(n int) {
	need := len(a.list) + n
	if need <= cap(a.list) {
		return
	}
	size := int(unsafe.Sizeof(*new(T)))
	need = max(need, 2*cap(a.list), (64<<10)/size)
	old := a.mapped
	var list []T
	mapped, err := syscall.Mmap(-1, 0, need*size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err == nil {
		list = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mapped))), need)
	} else {
		list = make([]T, need)
	}
	a.list, a.mapped = list[:copy(list, a.list)], mapped
	unmap(old)
}

func (a *arena[T]) free() {
	unmap(a.mapped)
	*a = arena[T]{}
}

func unmap(mapped []byte) {
	if mapped != nil {
		_ = syscall.Munmap(mapped) // fails only for what is not a mapping
	}
}
