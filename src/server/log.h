/* log.h - lines of the log: what was asked, how it went and how long it took; never what was said.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_SERVER_LOG_H
#define GLYD_SERVER_LOG_H

#include "server/exchange.h"

/* The line of an exchange that is over. */
void glyd_log_exchange(const glyd_exchange *x);

/* The rendered prompt, where the options ask for it. */
void glyd_log_prompt(const glyd_exchange *x, glyd_span prompt);

#endif
