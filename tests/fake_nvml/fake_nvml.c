/* fake_nvml.c - a stand-in libnvidia-ml.so.1 for tests.
 *
 * Own work. Implements, at the C ABI, the NVML calls an LLM-inference GPU
 * exporter needs, so that the REAL nvidia-ml-py ctypes bindings (struct
 * layouts, version words, retry-for-size loops, error mapping, GIL release)
 * are exercised without a GPU.
 *
 * State comes from a flat "key = value" text file named by $FAKE_NVML_STATE
 * (see library.py, which writes it from a dict).  The file is
 * re-read whenever its mtime/size/inode changes, so a test can change a
 * clock, raise a throttle bit or take a GPU off the bus while the exporter
 * is running.  Replace the file atomically (rename).
 *
 * Fault injection, most specific first:
 *    gpu3.err.<Call>         return code for that call on GPU 3
 *    gpu3.err.*              ... for every device call on GPU 3
 *    err.<Call> / err.*      ... on every GPU (and for system calls)
 *    gpu3.latency_ms.<Call>  sleep before answering; -1 = hang until cleared
 *    gpu3.lost = 1           every device call -> NVML_ERROR_GPU_IS_LOST
 *    init_err = 9|18|999...  nvmlInit fails
 *    epoch = N               bump it = "driver was reloaded": every handle and
 *                            init reference taken under the older epoch gives
 *                            stale_err (default 999) until nvmlShutdown+Init
 * <Call> is the C name without the leading "nvml" and version suffix kept,
 * e.g. DeviceGetMemoryInfo_v2.
 *
 * Build: gcc -O1 -Wall -Wextra -fPIC -shared -Wl,-soname,libnvidia-ml.so.1 \
 *            -o libnvidia-ml.so.1 fake_nvml.c -lpthread
 * -DFAKE_NVML_OLD leaves out the newer symbols (an R470-like driver), so
 * NVMLError_FunctionNotFound paths can be tested too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef unsigned int uint;
typedef unsigned long long ull;

enum { OK = 0, UNINIT = 1, INVAL = 2, NOTSUP = 3, NOTFOUND = 6, TOOSMALL = 7,
       TIMEOUT_ = 10, LOST = 15, VERMISM = 25, UNKNOWN = 999 };

#define MAXGPU 16
#define MAXMIG 8
#define EXPORT __attribute__((visibility("default")))

/* ------------------------------------------------------------ handles */
struct dev { uint magic; int gpu, mig; };          /* mig = -1: whole GPU */
static struct dev g_dev[MAXGPU], g_mig[MAXGPU][MAXMIG];
#define MAGIC 0xfa4e0001u

static void handles_init(void)
{
    for (int g = 0; g < MAXGPU; g++) {
        g_dev[g] = (struct dev){ MAGIC, g, -1 };
        for (int m = 0; m < MAXMIG; m++) g_mig[g][m] = (struct dev){ MAGIC, g, m };
    }
}

static int valid(const struct dev *d)
{
    if (!d) return 0;
    for (int g = 0; g < MAXGPU; g++) {
        if (d == &g_dev[g]) return 1;
        if (d >= &g_mig[g][0] && d < &g_mig[g][MAXMIG]) return d->magic == MAGIC;
    }
    return 0;
}

/* -------------------------------------------------------------- state */
struct kv { char *k, *v; };
static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kv *g_kv;
static size_t g_n;
static struct stat g_st;
static int g_ref;
static long g_init_epoch;
static pthread_once_t g_once = PTHREAD_ONCE_INIT;

static int kvcmp(const void *a, const void *b)
{ return strcmp(((const struct kv *)a)->k, ((const struct kv *)b)->k); }

static char *trim(char *s)
{
    while (*s == ' ' || *s == '\t') s++;
    char *e = s + strlen(s);
    while (e > s && strchr(" \t\r\n", e[-1])) *--e = 0;
    return s;
}

static void reload_locked(void)
{
    const char *path = getenv("FAKE_NVML_STATE");
    struct stat st;
    if (!path || stat(path, &st)) return;
    if (g_kv && st.st_ino == g_st.st_ino && st.st_size == g_st.st_size &&
        st.st_mtim.tv_sec == g_st.st_mtim.tv_sec && st.st_mtim.tv_nsec == g_st.st_mtim.tv_nsec)
        return;
    FILE *f = fopen(path, "r");
    if (!f) return;
    for (size_t i = 0; i < g_n; i++) { free(g_kv[i].k); free(g_kv[i].v); }
    free(g_kv); g_kv = NULL; g_n = 0;
    size_t cap = 0, lcap = 0; char *line = NULL;
    while (getline(&line, &lcap, f) > 0) {
        char *eq = strchr(line, '=');
        if (line[0] == '#' || !eq) continue;
        *eq = 0;
        if (g_n == cap) { cap = cap ? 2 * cap : 256; g_kv = realloc(g_kv, cap * sizeof *g_kv); }
        g_kv[g_n].k = strdup(trim(line));
        g_kv[g_n].v = strdup(trim(eq + 1));
        g_n++;
    }
    free(line); fclose(f);
    if (!g_kv) g_kv = calloc(1, sizeof *g_kv);
    qsort(g_kv, g_n, sizeof *g_kv, kvcmp);
    g_st = st;
}

/* copy of the value, or 0 */
static int get_s(const char *key, char *out, size_t len)
{
    int found = 0;
    pthread_mutex_lock(&g_lock);
    reload_locked();
    struct kv probe = { (char *)key, NULL };
    struct kv *hit = g_n ? bsearch(&probe, g_kv, g_n, sizeof *g_kv, kvcmp) : NULL;
    if (hit) { snprintf(out, len, "%s", hit->v); found = 1; }
    pthread_mutex_unlock(&g_lock);
    return found;
}

static double num(const char *v)
{
    return !strncmp(v, "0x", 2) ? (double)strtoull(v, NULL, 16) : strtod(v, NULL);
}

static double get_d(const char *key, double dflt)
{ char b[256]; return get_s(key, b, sizeof b) ? num(b) : dflt; }

/* "gpu3.mig1.<suffix>" for a MIG handle, else "gpu3.<suffix>" */
static void devkey(const struct dev *d, const char *suffix, char *out, size_t n)
{
    if (d->mig >= 0) snprintf(out, n, "gpu%d.mig%d.%s", d->gpu, d->mig, suffix);
    else snprintf(out, n, "gpu%d.%s", d->gpu, suffix);
}

static int dev_s(const struct dev *d, const char *suffix, char *out, size_t len)
{
    char k[256]; devkey(d, suffix, k, sizeof k);
    if (get_s(k, out, len)) return 1;
    snprintf(k, sizeof k, "default.%s", suffix);
    return d->mig < 0 && get_s(k, out, len);
}

static int dev_has(const struct dev *d, const char *suffix, double *out)
{
    char b[256];
    if (!dev_s(d, suffix, b, sizeof b)) return 0;
    *out = num(b);
    return 1;
}

static double now_s(void)
{ struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }

static ull now_us(void)
{ struct timespec t; clock_gettime(CLOCK_REALTIME, &t); return t.tv_sec * 1000000ull + t.tv_nsec / 1000; }

static void wait_ms(const char *key, double ms)
{
    double t0 = now_s();
    for (;;) {
        if (ms >= 0 && (now_s() - t0) * 1e3 >= ms) return;
        if (ms < 0 && get_d(key, 0) >= 0) return;           /* hang lifted */
        struct timespec ts = { 0, 2000000 };
        nanosleep(&ts, NULL);
    }
}

static void inject_latency(const char *scope, const char *call)
{
    const char *suf[2] = { call, "*" };
    for (int i = 0; i < 2; i++) {
        char k[256]; snprintf(k, sizeof k, "%slatency_ms.%s", scope, suf[i]);
        double ms = get_d(k, 0);
        if (ms != 0) { wait_ms(k, ms); return; }
    }
}

static int inject_err(const char *scope, const char *call)
{
    char k[256];
    snprintf(k, sizeof k, "%serr.%s", scope, call);
    int e = (int)get_d(k, 0);
    if (e) return e;
    snprintf(k, sizeof k, "%serr.*", scope);
    return (int)get_d(k, 0);
}

static void trace(const char *call, int gpu)
{
    const char *p = getenv("FAKE_NVML_TRACE");
    if (!p) return;
    FILE *f = fopen(p, "a");
    if (f) { fprintf(f, "%.6f %s %d\n", now_s(), call, gpu); fclose(f); }
}

/* Gate every call passes; MIG handles are refused unless allow_mig. */
static int gate(const struct dev *d, const char *call, int allow_mig)
{
    int ref; long ep;
    pthread_mutex_lock(&g_lock); ref = g_ref; ep = g_init_epoch; pthread_mutex_unlock(&g_lock);
    trace(call, d ? d->gpu : -1);
    if (!ref) return UNINIT;
    if (d && !valid(d)) return INVAL;
    if ((long)get_d("epoch", 0) != ep) return (int)get_d("stale_err", UNKNOWN);
    int e;
    if (d) {
        char sc[32]; snprintf(sc, sizeof sc, "gpu%d.", d->gpu);
        inject_latency(sc, call);
        double lost;
        struct dev whole = { MAGIC, d->gpu, -1 };
        if (dev_has(&whole, "lost", &lost) && lost) return LOST;
        if ((e = inject_err(sc, call))) return e;
    }
    inject_latency("", call);
    if ((e = inject_err("", call))) return e;
    if (d && d->mig >= 0 && !allow_mig) return (int)get_d("mig_handle_err", INVAL);
    return OK;
}

#define GATE(d, call, mig) do { int e_ = gate((d), (call), (mig)); if (e_) return e_; } while (0)
#define NEED(p) do { if (!(p)) return INVAL; } while (0)

static int mig_on(const struct dev *d)
{ struct dev w = { MAGIC, d->gpu, -1 }; double v; return dev_has(&w, "mig.mode", &v) && v == 1; }

static int out_u(const struct dev *d, const char *suffix, uint *out)
{
    double v;
    NEED(out);
    if (!dev_has(d, suffix, &v)) return NOTSUP;
    *out = (uint)(int64_t)v;
    return OK;
}

static int out_ull(const struct dev *d, const char *suffix, ull *out)
{
    double v;
    NEED(out);
    if (!dev_has(d, suffix, &v)) return NOTSUP;
    *out = (ull)v;
    return OK;
}

static int out_str(const struct dev *d, const char *suffix, char *buf, uint len)
{
    char b[512];
    NEED(buf);
    if (!dev_s(d, suffix, b, sizeof b)) return NOTSUP;
    if (!strncmp(b, "hex:", 4)) {                 /* raw bytes, e.g. bad UTF-8 */
        uint n = 0;
        for (const char *p = b + 4; p[0] && p[1] && n + 1 < len; p += 2) {
            uint x; sscanf(p, "%2x", &x); buf[n++] = (char)x;
        }
        buf[n] = 0;
        return OK;
    }
    if (strlen(b) + 1 > len) return TOOSMALL;
    strcpy(buf, b);
    return OK;
}

/* --------------------------------------------------- library lifetime */
static uint gpu_count(void) { double n = get_d("count", 8); return n > MAXGPU ? MAXGPU : (uint)n; }

EXPORT int nvmlInitWithFlags(uint flags)
{
    (void)flags;
    pthread_once(&g_once, handles_init);
    inject_latency("", "Init");
    int e = (int)get_d("init_err", 0);
    long ep = (long)get_d("epoch", 0);
    if (e) return e;
    pthread_mutex_lock(&g_lock);
    if (!g_ref) g_init_epoch = ep;
    g_ref++;
    pthread_mutex_unlock(&g_lock);
    trace("Init", -1);
    return OK;
}
EXPORT int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

EXPORT int nvmlShutdown(void)
{
    int r = OK;
    pthread_mutex_lock(&g_lock);
    if (g_ref) g_ref--; else r = UNINIT;
    pthread_mutex_unlock(&g_lock);
    return r;
}

EXPORT const char *nvmlErrorString(int r)
{
    switch (r) {
    case OK: return "Success";           case UNINIT: return "Uninitialized";
    case INVAL: return "Invalid Argument"; case NOTSUP: return "Not Supported";
    case 4: return "Insufficient Permissions"; case NOTFOUND: return "Not Found";
    case TOOSMALL: return "Insufficient Size"; case 9: return "Driver Not Loaded";
    case TIMEOUT_: return "Timeout";     case LOST: return "GPU is lost";
    case 16: return "GPU requires reset"; case 18: return "Driver/library version mismatch";
    case VERMISM: return "Argument version mismatch";
    default: return "Unknown Error";
    }
}

EXPORT int nvmlSystemGetDriverVersion(char *b, uint n)
{ GATE(NULL, "SystemGetDriverVersion", 1); char t[80]; if (!get_s("driver_version", t, sizeof t)) strcpy(t, "580.105.08"); snprintf(b, n, "%s", t); return OK; }
EXPORT int nvmlSystemGetNVMLVersion(char *b, uint n)
{ GATE(NULL, "SystemGetNVMLVersion", 1); char t[80]; if (!get_s("nvml_version", t, sizeof t)) strcpy(t, "13.580.105.08"); snprintf(b, n, "%s", t); return OK; }
EXPORT int nvmlSystemGetCudaDriverVersion(int *v)
{ GATE(NULL, "SystemGetCudaDriverVersion", 1); NEED(v); *v = (int)get_d("cuda_version", 13000); return OK; }
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *v) { return nvmlSystemGetCudaDriverVersion(v); }

EXPORT int nvmlSystemGetProcessName(uint pid, char *name, uint len)
{
    GATE(NULL, "SystemGetProcessName", 1);
    char k[64], b[512]; snprintf(k, sizeof k, "proc.%u.name", pid);
    if (!get_s(k, b, sizeof b)) return NOTFOUND;
    uint n = 0;
    if (!strncmp(b, "hex:", 4)) {
        for (const char *p = b + 4; p[0] && p[1] && n + 1 < len; p += 2) { uint x; sscanf(p, "%2x", &x); name[n++] = (char)x; }
        name[n] = 0;
    } else snprintf(name, len, "%s", b);
    return OK;
}

/* ------------------------------------------------------ device lookup */
EXPORT int nvmlDeviceGetCount_v2(uint *n)
{ GATE(NULL, "DeviceGetCount_v2", 1); NEED(n); *n = (uint)get_d("count_told", gpu_count()); return OK; }

EXPORT int nvmlDeviceGetHandleByIndex_v2(uint i, struct dev **h)
{
    GATE(NULL, "DeviceGetHandleByIndex_v2", 1); NEED(h);
    if (i >= gpu_count()) return INVAL;
    GATE(&g_dev[i], "DeviceGetHandleByIndex_v2", 1);
    *h = &g_dev[i];
    return OK;
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *u, struct dev **h)
{
    GATE(NULL, "DeviceGetHandleByUUID", 1); NEED(u && h);
    char b[96];
    for (uint g = 0; g < gpu_count(); g++) {
        if (dev_s(&g_dev[g], "uuid", b, sizeof b) && !strcmp(b, u)) { *h = &g_dev[g]; return OK; }
        for (int m = 0; m < MAXMIG; m++)
            if (dev_s(&g_mig[g][m], "uuid", b, sizeof b) && !strcmp(b, u)) { *h = &g_mig[g][m]; return OK; }
    }
    return NOTFOUND;
}

EXPORT int nvmlDeviceGetIndex(struct dev *d, uint *i)
{ GATE(d, "DeviceGetIndex", 1); NEED(i); *i = d->mig >= 0 ? (uint)d->mig : (uint)d->gpu; return OK; }
EXPORT int nvmlDeviceGetName(struct dev *d, char *b, uint n)   { GATE(d, "DeviceGetName", 1);   return out_str(d, "name", b, n); }
EXPORT int nvmlDeviceGetUUID(struct dev *d, char *b, uint n)   { GATE(d, "DeviceGetUUID", 1);   return out_str(d, "uuid", b, n); }
EXPORT int nvmlDeviceGetSerial(struct dev *d, char *b, uint n) { GATE(d, "DeviceGetSerial", 0); return out_str(d, "serial", b, n); }
EXPORT int nvmlDeviceGetVbiosVersion(struct dev *d, char *b, uint n) { GATE(d, "DeviceGetVbiosVersion", 0); return out_str(d, "vbios", b, n); }
EXPORT int nvmlDeviceGetMinorNumber(struct dev *d, uint *v)    { GATE(d, "DeviceGetMinorNumber", 0); NEED(v); *v = (uint)d->gpu; return OK; }
EXPORT int nvmlDeviceGetArchitecture(struct dev *d, uint *v)   { GATE(d, "DeviceGetArchitecture", 0); return out_u(d, "arch", v); }
EXPORT int nvmlDeviceGetCudaComputeCapability(struct dev *d, int *ma, int *mi)
{ GATE(d, "DeviceGetCudaComputeCapability", 1); NEED(ma && mi); struct dev w = { MAGIC, d->gpu, -1 }; double v = 9.0; dev_has(&w, "cc", &v); *ma = (int)v; *mi = (int)(v * 10 + .5) % 10; return OK; }

struct pci { char legacy[16]; uint domain, bus, device, id, sub; char bus_id[32]; };
EXPORT int nvmlDeviceGetPciInfo_v3(struct dev *d, struct pci *p)
{
    GATE(d, "DeviceGetPciInfo_v3", 0); NEED(p);
    memset(p, 0, sizeof *p);
    double bus = 0x1b + d->gpu * 0x10; dev_has(d, "pci_bus", &bus);
    p->bus = (uint)bus; p->id = 0x233010de;
    snprintf(p->legacy, sizeof p->legacy, "%04X:%02X:%02X.0", 0, p->bus & 0xff, 0);
    snprintf(p->bus_id, sizeof p->bus_id, "%08X:%02X:%02X.0", 0, p->bus & 0xff, 0);
    return OK;
}

/* ------------------------------------------------------ utilisation */
EXPORT int nvmlDeviceGetUtilizationRates(struct dev *d, uint *u /* gpu, memory */)
{
    GATE(d, "DeviceGetUtilizationRates", 1); NEED(u);
    if (mig_on(d)) return NOTSUP;                 /* parent and instances alike */
    int e = out_u(d, "util.gpu", &u[0]);
    return e ? e : out_u(d, "util.memory", &u[1]);
}
static int engine(struct dev *d, const char *call, const char *key, uint *u, uint *us)
{ GATE(d, call, 1); NEED(u && us); if (mig_on(d)) return NOTSUP; double p = 167000; dev_has(d, "util.period_us", &p); *us = (uint)p; return out_u(d, key, u); }
EXPORT int nvmlDeviceGetEncoderUtilization(struct dev *d, uint *u, uint *us) { return engine(d, "DeviceGetEncoderUtilization", "util.encoder", u, us); }
EXPORT int nvmlDeviceGetDecoderUtilization(struct dev *d, uint *u, uint *us) { return engine(d, "DeviceGetDecoderUtilization", "util.decoder", u, us); }

struct sample { ull ts; union { double d; uint u; ull ull_; } v; };
EXPORT int nvmlDeviceGetSamples(struct dev *d, uint type, ull last, uint *vtype, uint *n, struct sample *out)
{
    static const char *key[] = { "power_mw", "util.gpu", "util.memory", "util.encoder",
                                 "util.decoder", "clock.sm", "clock.mem" };
    GATE(d, "DeviceGetSamples", 1); NEED(vtype && n);
    if (type >= sizeof key / sizeof *key) return INVAL;
    if (mig_on(d) && type >= 1 && type <= 4) return NOTSUP;
    uint base; int e = out_u(d, key[type], &base);
    if (e) return e;
    char k[64], b[4096]; snprintf(k, sizeof k, "samples.%u", type);
    int nb = 0; uint val[128];
    if (dev_s(d, k, b, sizeof b))
        for (char *s = NULL, *p = strtok_r(b, ",", &s); p && nb < 128; p = strtok_r(NULL, ",", &s)) val[nb++] = (uint)num(p);
    else while (nb < 6) val[nb++] = base;          /* six samples of 1/6 s */
    *vtype = 1;
    if (!out) { *n = 128; return OK; }
    ull t = now_us(); uint w = 0;
    for (int i = 0; i < nb && w < *n; i++) {
        ull ts = t - (ull)(nb - i) * 166667;
        if (ts <= last) continue;
        out[w].ts = ts; out[w].v.ull_ = 0; out[w].v.u = val[i]; w++;
    }
    *n = w;
    return w ? OK : NOTFOUND;
}

/* ----------------------------------------------------------- memory */
struct mem1 { ull total, free, used; };
struct mem2 { uint version; ull total, reserved, free, used; };

static int mem_read(struct dev *d, double *t, double *r, double *u)
{
    if (!dev_has(d, "mem.total", t)) return NOTSUP;   /* GB10-style: unset it */
    *r = *u = 0;
    dev_has(d, "mem.reserved", r); dev_has(d, "mem.used", u);
    return OK;
}
EXPORT int nvmlDeviceGetMemoryInfo(struct dev *d, struct mem1 *m)
{
    double t, r, u; GATE(d, "DeviceGetMemoryInfo", 1); NEED(m);
    int e = mem_read(d, &t, &r, &u); if (e) return e;
    m->total = (ull)t; m->used = (ull)(u + r); m->free = (ull)(t - u - r);  /* v1: reserved counted as used */
    return OK;
}
EXPORT int nvmlDeviceGetBAR1MemoryInfo(struct dev *d, struct mem1 *m)
{
    GATE(d, "DeviceGetBAR1MemoryInfo", 1); NEED(m);
    double t = 137438953472.0, u = 1048576; dev_has(d, "bar1.total", &t); dev_has(d, "bar1.used", &u);
    *m = (struct mem1){ (ull)t, (ull)(t - u), (ull)u };
    return OK;
}

/* -------------------------------------------- clocks, thermal, power */
static const char *ckey[] = { "graphics", "sm", "mem", "video" };
static int clk(struct dev *d, const char *call, const char *pre, uint t, uint *c)
{ GATE(d, call, 0); if (t > 3) return INVAL; char k[64]; snprintf(k, sizeof k, "%s.%s", pre, ckey[t]); return out_u(d, k, c); }
EXPORT int nvmlDeviceGetClockInfo(struct dev *d, uint t, uint *c)         { return clk(d, "DeviceGetClockInfo", "clock", t, c); }
EXPORT int nvmlDeviceGetMaxClockInfo(struct dev *d, uint t, uint *c)      { return clk(d, "DeviceGetMaxClockInfo", "clock_max", t, c); }
EXPORT int nvmlDeviceGetApplicationsClock(struct dev *d, uint t, uint *c) { return clk(d, "DeviceGetApplicationsClock", "clock_app", t, c); }
EXPORT int nvmlDeviceGetClock(struct dev *d, uint t, uint id, uint *c)
{
    static const char *pre[] = { "clock", "clock_app", "clock_appdef", "clock_boostmax" };
    return id > 3 ? INVAL : clk(d, "DeviceGetClock", pre[id], t, c);
}
EXPORT int nvmlDeviceGetTemperature(struct dev *d, uint s, uint *t)
{ GATE(d, "DeviceGetTemperature", 0); return s ? INVAL : out_u(d, "temp.gpu", t); }
EXPORT int nvmlDeviceGetTemperatureThreshold(struct dev *d, uint w, uint *t)
{
    static const char *k[] = { "temp.shutdown", "temp.slowdown", "temp.mem_max", "temp.gpu_max" };
    GATE(d, "DeviceGetTemperatureThreshold", 0); return w > 3 ? INVAL : out_u(d, k[w], t);
}
EXPORT int nvmlDeviceGetPerformanceState(struct dev *d, uint *p) { GATE(d, "DeviceGetPerformanceState", 0); return out_u(d, "pstate", p); }
EXPORT int nvmlDeviceGetPowerUsage(struct dev *d, uint *p)          { GATE(d, "DeviceGetPowerUsage", 0); return out_u(d, "power_mw", p); }
EXPORT int nvmlDeviceGetEnforcedPowerLimit(struct dev *d, uint *p)  { GATE(d, "DeviceGetEnforcedPowerLimit", 0); return out_u(d, "power_limit_mw", p); }
EXPORT int nvmlDeviceGetPowerManagementLimit(struct dev *d, uint *p){ GATE(d, "DeviceGetPowerManagementLimit", 0); return out_u(d, "power_limit_mw", p); }
EXPORT int nvmlDeviceGetPowerManagementLimitConstraints(struct dev *d, uint *lo, uint *hi)
{ GATE(d, "DeviceGetPowerManagementLimitConstraints", 0); int e = out_u(d, "power_limit_min_mw", lo); return e ? e : out_u(d, "power_limit_max_mw", hi); }
EXPORT int nvmlDeviceGetPowerManagementDefaultLimit(struct dev *d, uint *p) { GATE(d, "DeviceGetPowerManagementDefaultLimit", 0); return out_u(d, "power_limit_default_mw", p); }

/* integrate a rate over wall time so that counters move by themselves */
struct integ { double last, acc; };
static struct integ g_energy[MAXGPU], g_viol[MAXGPU][16];
static double integrate(struct integ *s, double rate)
{
    pthread_mutex_lock(&g_lock);
    double t = now_s();
    if (s->last) s->acc += rate * (t - s->last);
    s->last = t;
    double a = s->acc;
    pthread_mutex_unlock(&g_lock);
    return a;
}
static double energy_mj(struct dev *d)
{
    double base = 0, p = 0; dev_has(d, "energy_mj", &base); dev_has(d, "power_mw", &p);
    return base + integrate(&g_energy[d->gpu], p);      /* mW * s = mJ */
}
EXPORT int nvmlDeviceGetTotalEnergyConsumption(struct dev *d, ull *e)
{ GATE(d, "DeviceGetTotalEnergyConsumption", 0); NEED(e); double x; if (!dev_has(d, "energy_mj", &x)) return NOTSUP; *e = (ull)energy_mj(d); return OK; }

EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(struct dev *d, ull *r) { GATE(d, "DeviceGetCurrentClocksThrottleReasons", 0); return out_ull(d, "reasons", r); }
EXPORT int nvmlDeviceGetSupportedClocksThrottleReasons(struct dev *d, ull *r) { GATE(d, "DeviceGetSupportedClocksThrottleReasons", 0); NEED(r); *r = 0x1ff; return OK; }

/* ns spent throttled, by the reason bit(s) that feed it */
static double viol_ns(struct dev *d, int slot, ull mask)
{
    double reasons = 0, base = 0; char k[32];
    dev_has(d, "reasons", &reasons);
    snprintf(k, sizeof k, "viol.%d", slot); dev_has(d, k, &base);
    return base + integrate(&g_viol[d->gpu][slot], ((ull)reasons & mask) ? 1e9 : 0);
}
struct viol { ull ref_us, ns; };
EXPORT int nvmlDeviceGetViolationStatus(struct dev *d, uint pol, struct viol *v)
{
    GATE(d, "DeviceGetViolationStatus", 0); NEED(v);
    static const ull mask[12] = { 0x4, 0x60, 0x10, 0, 0x1, 0, 0, 0, 0, 0, 0xfe, 0xe8 };
    if (pol > 11) return INVAL;
    v->ref_us = now_us(); v->ns = (ull)viol_ns(d, (int)pol, mask[pol]);
    return OK;
}

/* ------------------------------------------------------- PCIe, ECC... */
EXPORT int nvmlDeviceGetPcieThroughput(struct dev *d, uint c, uint *kbs)
{ GATE(d, "DeviceGetPcieThroughput", 0); if (c > 1) return INVAL; wait_ms("", 20); return out_u(d, c ? "pcie.rx_kbs" : "pcie.tx_kbs", kbs); }
EXPORT int nvmlDeviceGetPcieReplayCounter(struct dev *d, uint *v) { GATE(d, "DeviceGetPcieReplayCounter", 0); return out_u(d, "pcie.replay", v); }
EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(struct dev *d, uint *v) { GATE(d, "DeviceGetCurrPcieLinkGeneration", 0); return out_u(d, "pcie.gen", v); }
EXPORT int nvmlDeviceGetCurrPcieLinkWidth(struct dev *d, uint *v)      { GATE(d, "DeviceGetCurrPcieLinkWidth", 0); return out_u(d, "pcie.width", v); }
EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(struct dev *d, uint *v)  { GATE(d, "DeviceGetMaxPcieLinkGeneration", 0); return out_u(d, "pcie.gen_max", v); }
EXPORT int nvmlDeviceGetMaxPcieLinkWidth(struct dev *d, uint *v)       { GATE(d, "DeviceGetMaxPcieLinkWidth", 0); return out_u(d, "pcie.width_max", v); }
EXPORT int nvmlDeviceGetEccMode(struct dev *d, uint *cur, uint *pend)
{ GATE(d, "DeviceGetEccMode", 0); int e = out_u(d, "ecc.mode", cur); return e ? e : out_u(d, "ecc.mode", pend); }
EXPORT int nvmlDeviceGetTotalEccErrors(struct dev *d, uint type, uint ctr, ull *n)
{
    GATE(d, "DeviceGetTotalEccErrors", 0); if (type > 1 || ctr > 1) return INVAL;
    double m = 0; dev_has(d, "ecc.mode", &m); if (!m) return NOTSUP;
    char k[64]; snprintf(k, sizeof k, "ecc.%s.%s", ctr ? "aggregate" : "volatile", type ? "uncorrected" : "corrected");
    return out_ull(d, k, n);
}
EXPORT int nvmlDeviceGetMemoryErrorCounter(struct dev *d, uint type, uint ctr, uint loc, ull *n)
{
    GATE(d, "DeviceGetMemoryErrorCounter", 1); if (type > 1 || ctr > 1 || loc > 7) return INVAL;
    char k[64]; snprintf(k, sizeof k, "ecc.%s.%s.%u", ctr ? "aggregate" : "volatile", type ? "uncorrected" : "corrected", loc);
    return out_ull(d, k, n);
}
EXPORT int nvmlDeviceGetRetiredPagesPendingStatus(struct dev *d, uint *v) { GATE(d, "DeviceGetRetiredPagesPendingStatus", 0); return out_u(d, "retired.pending", v); }
EXPORT int nvmlDeviceGetRemappedRows(struct dev *d, uint *cor, uint *unc, uint *pend, uint *fail)
{
    GATE(d, "DeviceGetRemappedRows", 0); if (mig_on(d)) return NOTSUP;
    double v = 0; if (!dev_has(d, "remap.cor", &v)) return NOTSUP;
    *cor = (uint)v; v = 0; dev_has(d, "remap.unc", &v); *unc = (uint)v; v = 0; dev_has(d, "remap.pending", &v); *pend = (uint)v;
    v = 0; dev_has(d, "remap.failure", &v); *fail = (uint)v;
    return OK;
}
EXPORT int nvmlDeviceGetPersistenceMode(struct dev *d, uint *v) { GATE(d, "DeviceGetPersistenceMode", 0); return out_u(d, "persistence", v); }
EXPORT int nvmlDeviceGetComputeMode(struct dev *d, uint *v)     { GATE(d, "DeviceGetComputeMode", 0); return out_u(d, "compute_mode", v); }
EXPORT int nvmlDeviceGetNvLinkState(struct dev *d, uint l, uint *v)
{ GATE(d, "DeviceGetNvLinkState", 0); double n = 0; dev_has(d, "nvlink.count", &n); if (l >= (uint)n) return n ? INVAL : NOTSUP; char k[32]; snprintf(k, sizeof k, "nvlink.%u.state", l); if (out_u(d, k, v)) *v = 1; return OK; }
EXPORT int nvmlDeviceGetNvLinkErrorCounter(struct dev *d, uint l, uint c, ull *v)
{ GATE(d, "DeviceGetNvLinkErrorCounter", 0); double n = 0; dev_has(d, "nvlink.count", &n); if (l >= (uint)n) return n ? INVAL : NOTSUP; char k[48]; snprintf(k, sizeof k, "nvlink.%u.err.%u", l, c); if (out_ull(d, k, v)) *v = 0; return OK; }

/* -------------------------------------------------------- processes */
struct proc2 { uint pid; ull used; uint gi, ci; };
static int procs(struct dev *d, const char *call, const char *key, uint *n, struct proc2 *out)
{
    GATE(d, call, 1); NEED(n);
    char b[4096]; uint have = 0; struct proc2 p[128];
    struct dev w = { MAGIC, d->gpu, -1 };
    double gi = -1; if (d->mig >= 0) dev_has(d, "gi", &gi);
    if (dev_s(&w, key, b, sizeof b))               /* pid:bytes:gi:ci,... */
        for (char *s = NULL, *t = strtok_r(b, ",", &s); t && have < 128; t = strtok_r(NULL, ",", &s)) {
            long long pid = 0, g = -1, c = -1; ull used = 0;
            sscanf(t, "%lld:%llu:%lld:%lld", &pid, &used, &g, &c);
            if (d->mig >= 0 && g != (long long)gi) continue;
            p[have++] = (struct proc2){ (uint)pid, used, (uint)g, (uint)c };
        }
    double told; if (dev_has(&w, "procs_told", &told)) { *n = (uint)told; return TOOSMALL; }
    if (!have) { *n = 0; return OK; }
    if (!out || *n < have) { *n = have; return TOOSMALL; }
    *n = have;
    if (get_d("procs_wide", 0)) {      /* early R535: a 32-byte record under the same symbol */
        struct { struct proc2 p; ull cc; } w2;
        for (uint i = 0; i < have; i++) { w2.p = p[i]; w2.cc = 0; memcpy((char *)out + i * sizeof w2, &w2, sizeof w2); }
        return OK;
    }
    memcpy(out, p, have * sizeof *p);
    return OK;
}
EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(struct dev *d, uint *n, struct proc2 *o) { return procs(d, "DeviceGetComputeRunningProcesses_v2", "procs", n, o); }

struct putil { uint pid; ull ts; uint sm, mem, enc, dec; };
EXPORT int nvmlDeviceGetProcessUtilization(struct dev *d, struct putil *o, uint *n, ull last)
{
    (void)last; GATE(d, "DeviceGetProcessUtilization", 0); NEED(n);
    if (mig_on(d)) return NOTSUP;
    char b[2048]; uint have = 0; struct putil p[64];
    if (dev_s(d, "proc_util", b, sizeof b))        /* pid:sm:mem,... */
        for (char *s = NULL, *t = strtok_r(b, ",", &s); t && have < 64; t = strtok_r(NULL, ",", &s)) {
            uint pid = 0, sm = 0, m = 0; sscanf(t, "%u:%u:%u", &pid, &sm, &m);
            p[have++] = (struct putil){ pid, now_us(), sm, m, 0, 0 };
        }
    if (!have) return NOTFOUND;
    if (!o || *n < have) { *n = have; return TOOSMALL; }
    memcpy(o, p, have * sizeof *p); *n = have;
    return OK;
}

/* --------------------------------------------------------------- MIG */
EXPORT int nvmlDeviceGetMigMode(struct dev *d, uint *c, uint *p)
{ GATE(d, "DeviceGetMigMode", 0); int e = out_u(d, "mig.mode", c); if (e) return e; if (out_u(d, "mig.pending", p)) *p = *c; return OK; }
EXPORT int nvmlDeviceIsMigDeviceHandle(struct dev *d, uint *v) { GATE(d, "DeviceIsMigDeviceHandle", 1); NEED(v); *v = d->mig >= 0; return OK; }
EXPORT int nvmlDeviceGetMaxMigDeviceCount(struct dev *d, uint *n) { GATE(d, "DeviceGetMaxMigDeviceCount", 0); NEED(n); double v; *n = dev_has(d, "mig.mode", &v) ? 7 : 0; if (dev_has(d, "mig.most", &v)) *n = (uint)v; return OK; }
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(struct dev *d, uint i, struct dev **h)
{
    GATE(d, "DeviceGetMigDeviceHandleByIndex", 0); NEED(h);
    double v; if (!dev_has(d, "mig.mode", &v)) return NOTSUP;
    char b[8]; if (i >= 7) return INVAL;
    if (v != 1 || !dev_s(&g_mig[d->gpu][i], "uuid", b, 8)) return NOTFOUND;
    *h = &g_mig[d->gpu][i];
    return OK;
}
EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct dev *d, struct dev **h)
{ GATE(d, "DeviceGetDeviceHandleFromMigDeviceHandle", 1); if (d->mig < 0) return INVAL; *h = &g_dev[d->gpu]; return OK; }
EXPORT int nvmlDeviceGetGpuInstanceId(struct dev *d, uint *v)     { GATE(d, "DeviceGetGpuInstanceId", 1); return d->mig < 0 ? NOTSUP : out_u(d, "gi", v); }
EXPORT int nvmlDeviceGetComputeInstanceId(struct dev *d, uint *v) { GATE(d, "DeviceGetComputeInstanceId", 1); return d->mig < 0 ? NOTSUP : out_u(d, "ci", v); }
struct attr { uint sm, ce, dec, enc, jpg, ofa, gslice, cslice; ull mem_mb; };
EXPORT int nvmlDeviceGetAttributes_v2(struct dev *d, struct attr *a)
{
    GATE(d, "DeviceGetAttributes_v2", 1); NEED(a); if (d->mig < 0) return NOTSUP;
    memset(a, 0, sizeof *a); double v = 0;
    dev_has(d, "attr.sm", &v); a->sm = (uint)v; v = 1; dev_has(d, "attr.gslice", &v); a->gslice = a->cslice = (uint)v;
    v = 0; dev_has(d, "mem.total", &v); a->mem_mb = (ull)(v / 1048576);
    return OK;
}

/* ------------------------------------------------------------ events */
struct eset { uint magic; ull mask[MAXGPU]; long off; };
struct edata { struct dev *dev; ull type, data; uint gi, ci; };
EXPORT int nvmlEventSetCreate(struct eset **s)
{
    GATE(NULL, "EventSetCreate", 1); NEED(s);
    *s = calloc(1, sizeof **s); (*s)->magic = MAGIC;
    const char *p = getenv("FAKE_NVML_EVENTS"); struct stat st;
    (*s)->off = p && !stat(p, &st) ? (long)st.st_size : 0;       /* only events from now on */
    return OK;
}
EXPORT int nvmlDeviceGetSupportedEventTypes(struct dev *d, ull *t) { GATE(d, "DeviceGetSupportedEventTypes", 0); NEED(t); *t = 0x1f; double v; if (dev_has(d, "event_types", &v)) *t = (ull)v; return OK; }
EXPORT int nvmlDeviceRegisterEvents(struct dev *d, ull types, struct eset *s)
{ GATE(d, "DeviceRegisterEvents", 0); NEED(s && s->magic == MAGIC); double v = 0x1f; dev_has(d, "event_types", &v); if (types & ~(ull)v) return NOTSUP; s->mask[d->gpu] |= types; return OK; }
EXPORT int nvmlEventSetWait_v2(struct eset *s, struct edata *e, uint ms)
{
    GATE(NULL, "EventSetWait_v2", 1); NEED(s && s->magic == MAGIC && e);
    const char *p = getenv("FAKE_NVML_EVENTS");
    double t0 = now_s();
    do {
        FILE *f = p ? fopen(p, "r") : NULL;
        if (f) {
            char line[256];
            fseek(f, s->off, SEEK_SET);
            while (fgets(line, sizeof line, f) && strchr(line, '\n')) {
                s->off = ftell(f);
                uint g = 0, gi = ~0u, ci = ~0u; ull ty = 0, da = 0;  /* gpu type data [gi ci] */
                if (sscanf(line, "%u %lli %lli %u %u", &g, (long long *)&ty, (long long *)&da, &gi, &ci) < 3 || g >= MAXGPU) continue;
                if (!(s->mask[g] & ty)) continue;
                *e = (struct edata){ &g_dev[g], ty, da, gi, ci };
                fclose(f);
                return OK;
            }
            fclose(f);
        }
        struct timespec ts = { 0, 3000000 }; nanosleep(&ts, NULL);
    } while ((now_s() - t0) * 1e3 < ms);
    return TIMEOUT_;
}
EXPORT int nvmlEventSetFree(struct eset *s) { NEED(s && s->magic == MAGIC); s->magic = 0; free(s); return OK; }

#ifndef FAKE_NVML_OLD
/* ------------------------------------ symbols newer drivers add (R510+) */
EXPORT int nvmlDeviceGetMemoryInfo_v2(struct dev *d, struct mem2 *m)
{
    double t, r, u; GATE(d, "DeviceGetMemoryInfo_v2", 1); NEED(m);
    if (m->version != 0x02000028) return VERMISM;
    int e = mem_read(d, &t, &r, &u); if (e) return e;
    m->total = (ull)t; m->reserved = (ull)r; m->used = (ull)u; m->free = (ull)(t - r - u);
    return OK;
}
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(struct dev *d, uint *n, struct proc2 *o) { return procs(d, "DeviceGetComputeRunningProcesses_v3", "procs", n, o); }
EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(struct dev *d, uint *n, struct proc2 *o) { return procs(d, "DeviceGetGraphicsRunningProcesses_v3", "gprocs", n, o); }
EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct dev *d, uint *n, struct proc2 *o) { return procs(d, "DeviceGetMPSComputeRunningProcesses_v3", "mpsprocs", n, o); }
EXPORT int nvmlDeviceGetCurrentClocksEventReasons(struct dev *d, ull *r) { GATE(d, "DeviceGetCurrentClocksEventReasons", 0); return out_ull(d, "reasons", r); }
EXPORT int nvmlDeviceGetSupportedClocksEventReasons(struct dev *d, ull *r) { GATE(d, "DeviceGetSupportedClocksEventReasons", 0); NEED(r); *r = 0x1ff; return OK; }
struct tempv { uint version, sensor; int temp; };
EXPORT int nvmlDeviceGetTemperatureV(struct dev *d, struct tempv *t)
{ GATE(d, "DeviceGetTemperatureV", 0); NEED(t); if (t->version != 0x100000C) return VERMISM; return t->sensor ? INVAL : out_u(d, "temp.gpu", (uint *)&t->temp); }
struct margin { uint version; int margin; };
EXPORT int nvmlDeviceGetMarginTemperature(struct dev *d, struct margin *t)
{ GATE(d, "DeviceGetMarginTemperature", 0); NEED(t); return out_u(d, "temp.margin", (uint *)&t->margin); }

union val { double d; int i; uint u; ull l; long long sl; };
struct fv { uint id, scope; int64_t ts, lat; uint vtype, ret; union val v; };
EXPORT int nvmlDeviceGetFieldValues(struct dev *d, int n, struct fv *f)
{
    GATE(d, "DeviceGetFieldValues", 0); NEED(f && n > 0);
    for (int i = 0; i < n; i++) {
        char k[64]; double x = 0;
        f[i].ts = (int64_t)now_us(); f[i].lat = 1; f[i].vtype = 3; f[i].ret = OK; f[i].v.l = 0;
        snprintf(k, sizeof k, "field.%u.err", f[i].id);
        if (dev_has(d, k, &x) && x) { f[i].ret = (uint)x; continue; }
        snprintf(k, sizeof k, "field.%u.%u", f[i].id, f[i].scope);
        if (dev_has(d, k, &x)) { f[i].v.l = (ull)x; continue; }
        snprintf(k, sizeof k, "field.%u", f[i].id);
        if (dev_has(d, k, &x)) { if (x < 0) { f[i].vtype = 5; f[i].v.i = (int)x; } else f[i].v.l = (ull)x; continue; }
        switch (f[i].id) {
        case 82:  f[i].vtype = 1; f[i].ret = (uint)out_u(d, "temp.mem", &f[i].v.u); break;
        case 83: case 191: f[i].v.l = (ull)energy_mj(d); break;
        case 185: f[i].vtype = 1; f[i].ret = (uint)out_u(d, "power_mw", &f[i].v.u); break;
        case 186: f[i].vtype = 1; if (out_u(d, "power_instant_mw", &f[i].v.u)) f[i].ret = (uint)out_u(d, "power_mw", &f[i].v.u); break;
        case 74:  f[i].v.l = (ull)viol_ns(d, 0, 0x4); break;    /* sw power cap     */
        case 75:  f[i].v.l = (ull)viol_ns(d, 1, 0x60); break;   /* thermal (legacy) */
        case 76:  f[i].v.l = (ull)viol_ns(d, 2, 0x10); break;   /* sync boost       */
        case 269: f[i].v.l = (ull)viol_ns(d, 12, 0x20); break;  /* sw thermal       */
        case 270: f[i].v.l = (ull)viol_ns(d, 13, 0x40); break;  /* hw thermal       */
        case 271: f[i].v.l = (ull)viol_ns(d, 14, 0x80); break;  /* hw power brake   */
        case 142: case 143: case 144: case 145: {
            static const char *rk[] = { "remap.cor", "remap.unc", "remap.pending", "remap.failure" };
            f[i].vtype = 1; f[i].ret = mig_on(d) ? NOTSUP : (uint)out_u(d, rk[f[i].id - 142], &f[i].v.u); break; }
        default: f[i].ret = NOTSUP;
        }
    }
    return OK;
}

struct fabric { uint version; unsigned char cluster[16]; uint status, clique, state, health; unsigned char summary; };
EXPORT int nvmlDeviceGetGpuFabricInfoV(struct dev *d, struct fabric *f)
{
    GATE(d, "DeviceGetGpuFabricInfoV", 0); NEED(f);
    if (f->version != 0x02000024 && f->version != 0x03000028) return VERMISM;
    double st; if (!dev_has(d, "fabric.state", &st)) return NOTSUP;
    memset(f->cluster, 0xab, 16); f->status = 0; f->clique = 0; f->state = (uint)st;
    double h = 0; dev_has(d, "fabric.health", &h); f->health = (uint)h;
    if (f->version == 0x03000028) f->summary = h ? 2 : 1;
    return OK;
}

/* ---- GPM (Hopper+): a sample freezes the metric gauges at that moment */
struct gsample { uint magic; int gpu, mig; double t; };
struct gmetric { uint id, ret; double value; const char *s, *l, *u; };
struct gget { uint version, n; struct gsample *a, *b; struct gmetric m[477]; };
struct gsup { uint version, ok; };
static int gpm_ok(struct dev *d) { struct dev w = { MAGIC, d->gpu, -1 }; double a = 9; dev_has(&w, "arch", &a); return a >= 9; }
EXPORT int nvmlGpmQueryDeviceSupport(struct dev *d, struct gsup *s) { GATE(d, "GpmQueryDeviceSupport", 1); NEED(s); if (s->version != 1) return VERMISM; s->ok = (uint)gpm_ok(d); return OK; }
EXPORT int nvmlGpmSampleAlloc(struct gsample **s) { GATE(NULL, "GpmSampleAlloc", 1); NEED(s); *s = calloc(1, sizeof **s); (*s)->magic = MAGIC; return OK; }
EXPORT int nvmlGpmSampleFree(struct gsample *s) { NEED(s && s->magic == MAGIC); s->magic = 0; free(s); return OK; }
EXPORT int nvmlGpmSampleGet(struct dev *d, struct gsample *s)
{ GATE(d, "GpmSampleGet", 1); NEED(s && s->magic == MAGIC); if (!gpm_ok(d)) return NOTSUP; s->gpu = d->gpu; s->mig = d->mig; s->t = now_s(); return OK; }
EXPORT int nvmlGpmMigSampleGet(struct dev *d, uint gi, struct gsample *s)
{
    GATE(d, "GpmMigSampleGet", 0); NEED(s && s->magic == MAGIC); if (!gpm_ok(d)) return NOTSUP;
    for (int m = 0; m < MAXMIG; m++) { double g; if (dev_has(&g_mig[d->gpu][m], "gi", &g) && (uint)g == gi) { s->gpu = d->gpu; s->mig = m; s->t = now_s(); return OK; } }
    return NOTFOUND;
}
EXPORT int nvmlGpmMetricsGet(struct gget *g)
{
    NEED(g && g->a && g->b && g->a->magic == MAGIC && g->b->magic == MAGIC);
    if (g->version != 1) return VERMISM;
    if (g->n > 477 || g->a->gpu != g->b->gpu || g->a->mig != g->b->mig || !(g->b->t > g->a->t)) return INVAL;
    struct dev *d = g->a->mig < 0 ? &g_dev[g->a->gpu] : &g_mig[g->a->gpu][g->a->mig];
    GATE(d, "GpmMetricsGet", 1);
    for (uint i = 0; i < g->n; i++) {
        char k[32]; double v; snprintf(k, sizeof k, "gpm.%u", g->m[i].id);
        if (dev_has(d, k, &v)) { g->m[i].ret = OK; g->m[i].value = v; }
        else { g->m[i].ret = NOTSUP; g->m[i].value = 0; }
        g->m[i].s = "fake"; g->m[i].l = "fake metric"; g->m[i].u = "%";
    }
    return OK;
}
#endif
