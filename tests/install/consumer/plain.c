#include <stdlib.h>

int main(void) {
  void *volatile block = malloc(100);
  free(block);
  return block == NULL;
}
