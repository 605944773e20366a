# A thin front for CMake and the scripts; CMakeLists.txt is the build.
BUILD := build

.PHONY: all demo test bench clean

all:
	@scripts/deps build
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log
	@cmake --build $(BUILD)

# A real program under glibc's malloc and under hakmem, side by side.
demo: all
	@scripts/deps demo
	@python3 demo/demo.py --lib $(BUILD)/libhakmem.so

# Every test; the last line is `N passed, N failed, N skipped`.
test:
	@scripts/deps build test
	@tests/run

# Against glibc and Debian's mimalloc, jemalloc and tcmalloc.
bench: all
	@scripts/deps bench
	@cmake -S . -B $(BUILD) -DHAKMEM_BENCH=ON >/dev/null && cmake --build $(BUILD)
	@python3 bench/run.py --lib $(BUILD)/libhakmem.so

clean:
	rm -rf $(BUILD)
