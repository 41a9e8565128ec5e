/* clock.h - elapsed time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef GLYD_BASE_CLOCK_H
#define GLYD_BASE_CLOCK_H

/* Seconds since some fixed moment; never goes back. */
double glyd_clock_s(void);

#endif
