# A thin front for CMake, cargo and the scripts; CMakeLists.txt is the build.
BUILD := build
# For a shell, whatever is in its name.
tree = '$(subst ','\'',$(BUILD))'

.PHONY: all library demo test test-all test-quick bench dist deb rpm site clean

all: library
	@scripts/build-hak $(tree)

library:
	@scripts/deps build
	@cmake -S . -B $(tree) -G Ninja -DCMAKE_BUILD_TYPE=Release >$(tree).log 2>&1 || { cat $(tree).log; exit 1; }
	@rm -f $(tree).log
	@cmake --build $(tree)

# Two real programs under glibc's malloc and under hakmem, side by side, with noise marked.
demo: library
	@scripts/deps demo
	@python3 demo/demo.py --lib $(tree)/libhakmem.so

# The tests; of what is run in turns, the turn that the last commit chooses. The last line is
# `N passed, N failed, N skipped`.
test:
	@scripts/deps build test
	@tests/run

# All turns.
test-all:
	@scripts/deps build test
	@tests/run --all

# For whoever changes something: one form, without the tests that take long.
test-quick:
	@scripts/deps build test
	@tests/run --quick

# The suite's quick rows under every allocator; `build/hak bench --help` has more.
bench:
	@scripts/deps build bench
	@$(MAKE) --no-print-directory all
	@cmake -S . -B $(tree) -DHAKMEM_BENCH=ON >/dev/null && cmake --build $(tree)
	@cargo run --release --locked --quiet --manifest-path bench/peers/Cargo.toml --target-dir $(tree)/cargo -- --out $(tree)/peers
	@$(tree)/hak bench --quick

# The archives of a version, from what is committed; docs/releases.md has more.
dist:
	@scripts/deps build dist
	@scripts/dist $(tree)/dist

# Debian packages, of what is in this folder.
deb:
	@scripts/deps build deb
	@scripts/build-deb $(tree)/deb

# The documents, manual pages and API reference as static pages, in build/site/site.
site: all
	@scripts/deps site
	@scripts/build-site $(tree)/site

# Packages for rpm, from what is committed.
rpm:
	@scripts/deps build rpm
	@scripts/build-rpm $(tree)/rpm

clean:
	rm -rf -- $(tree)
