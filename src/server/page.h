/* page.h - the chat page's policy.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_PAGE_H
#define GLYD_SERVER_PAGE_H

#include "server/state.h"

/* Write the policy that lets the page's own script and style run, by their hashes, lets it ask this
 * server, and forbids everything else, being framed included. Errors: E_NOMEM. */
GLYD_MUST_CHECK glyd_status glyd_page_policy_make(char policy[GLYD_PAGE_POLICY_BYTES],
                                                  glyd_error *err);

#endif
