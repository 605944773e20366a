// Allocates through C from many goroutines, and through Go's own heap beside it: the first is malloc's, the second not.
package main

/*
#include <stdlib.h>
#include <string.h>
static void fill(char *block, size_t bytes) { memset(block, 1, bytes); }
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

func work(seed uint32, sum *int) {
	var kept [512]unsafe.Pointer
	own := make([][]byte, 512)
	for i := 0; i < 400000; i++ {
		seed = seed*1664525 + 1013904223
		at, bytes := seed>>8%512, C.size_t(seed>>20%2000+1)
		C.free(kept[at])
		kept[at] = C.malloc(bytes)
		C.fill((*C.char)(kept[at]), bytes)
		own[at] = make([]byte, 16)
		*sum += int(bytes)
	}
	for _, block := range kept {
		C.free(block)
	}
}

func main() {
	var all sync.WaitGroup
	sums := make([]int, 4)
	for i := range sums {
		all.Add(1)
		go func() {
			defer all.Done()
			work(uint32(i), &sums[i])
		}()
	}
	all.Wait()
	fmt.Println(sums)
	// Go ends without exit(3), and so without hakmem's statistics.
	C.exit(0)
}
