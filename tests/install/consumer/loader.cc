/* Loads a plug-in in a thread, uses it, closes it; what it leaves behind is called when the thread ends. */
#include <dlfcn.h>

#include <cstdio>
#include <thread>

int main(int, char **argv) {
  bool works = false;
  std::thread([&] {
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) std::puts(dlerror());
    if (plugin == nullptr) return;
    works = reinterpret_cast<bool (*)()>(dlsym(plugin, "plugin_works"))();
    dlclose(plugin);
  }).join();
  return !works;
}
