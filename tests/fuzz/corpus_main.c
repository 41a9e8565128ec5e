/* corpus_main.c - runs a fuzz target over files and folders, for builds without libFuzzer.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    fseek(file, 0, SEEK_END);
    long bytes = ftell(file);
    rewind(file);
    if (bytes < 0 || bytes > (64 << 20)) {
        fclose(file);
        return 0;
    }
    uint8_t *data = malloc((size_t)bytes + 1);
    size_t got = data ? fread(data, 1, (size_t)bytes, file) : 0;
    fclose(file);
    /* An exact copy, so that AddressSanitizer sees a read one byte past the end. */
    uint8_t *exact = malloc(got ? got : 1);
    if (exact && data) {
        memcpy(exact, data, got);
        LLVMFuzzerTestOneInput(exact, got);
    }
    free(exact);
    free(data);
    return 1;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);
        if (!folder) {
            n += run_file(argv[i]);
            continue;
        }
        for (struct dirent *entry; (entry = readdir(folder));) {
            char path[4096];
            if (entry->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            n += run_file(path);
        }
        closedir(folder);
    }
    printf("%d inputs\n", n);
    return n > 0 ? 0 : 1; /* an empty corpus tests nothing */
}
