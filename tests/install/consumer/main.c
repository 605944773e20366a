/* Served by the installed library, of the version that is named? Its own functions say so of malloc's block. */
#include <hakmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  char *block = malloc(100);
  int served = block != NULL && hak_owns(block) && hak_usable_size(block) >= 100;
  if (!served) puts("malloc is not hakmem's");
  if (argc != 2 || strcmp(hak_version(), argv[1]) != 0) printf("unexpected version %s\n", hak_version()), served = 0;
  free(block);
  return !served;
}
