/* embedded.h - files that are part of the program (cmake/embed.cmake).
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_EMBEDDED_H
#define GLYD_SERVER_EMBEDDED_H

#include <stddef.h>

extern const unsigned char glyd_openapi_json[]; /* src/server/openapi.json */
extern const size_t glyd_openapi_json_bytes;
extern const unsigned char glyd_page_html[]; /* src/server/page, joined */
extern const size_t glyd_page_html_bytes;

#endif
