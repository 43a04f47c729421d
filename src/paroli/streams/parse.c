/* The grammar of grammar.py, for lines of the common kind.

   A function here reads whole lines of text into arrays.  At a line that is not plainly right it
   stops and says so (ODD): grammar.py then reads that one line and either makes its row or says what
   is wrong with it.  So this file has no error messages, and must only never accept what grammar.py
   refuses, nor read it differently.

   The text ends with a newline, and thirty-two readable bytes follow it: no loop needs to look for
   the end, and what is short is read in words of 8 and 16 bytes at once: how long a name or a number
   is cannot be foreseen, and a branch on it would cost more than the work. */

#define _GNU_SOURCE /* strtod_l */
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#ifdef __APPLE__
#include <xlocale.h>
#endif

typedef uint8_t byte;

enum status { DONE, FULL, ODD };
enum labels { BINARY, CLASSES, REAL, COUNTS, NO_LABELS };
enum role { FEATURE, CATEGORICAL, IGNORED, LABEL, WEIGHT, TAG };
enum { SCRATCH = 4096, DEEPEST = 32, LONGEST_NUMBER = 400 };

typedef struct {
    const byte *begin;
    int64_t length;
} span;

typedef struct {
    span name;
    int32_t role;
} named;

typedef struct {
    int32_t first_letter, second_letter; /* -1: any */
    int64_t first_number, second_number; /* -1: any */
} interaction;

typedef struct {
    /* what to read */
    const byte *text;
    int64_t begin, end; /* begin moves on, to the first line not read */
    int64_t lines;      /* how many lines were read, rows or not */
    /* where to write; counters move on */
    int64_t row, row_capacity, entry, entry_capacity, tag_end, tag_capacity;
    int64_t *indptr;
    int32_t *indices;
    float *values;
    double *labels, *weights;
    uint64_t *groups; /* NULL: no interactions */
    byte *tags;       /* NULL: not wanted */
    int64_t *tag_ends;
    /* how */
    uint64_t mask;
    int32_t label_kind, class_count;
    const span *classes;
    const double *class_numbers; /* NaN: not a number */
    int32_t interaction_count, column_count;
    const interaction *interactions;
    const named *columns; /* of CSV, in order; of JSON, those with a role */
    int32_t delimiter;
} reader;

/* Characters ---------------------------------------------------------------------------------- */

static inline int is_space(byte c) { return c == ' ' || c == '\t'; }
static inline int is_digit(byte c) { return (byte)(c - '0') <= 9; }
static inline int is_end(const byte *p) { return *p == '\n' || (*p == '\r' && p[1] == '\n'); }
static inline const byte *line_end(const reader *r, const byte *p) {
    return memchr(p, '\n', (size_t)(r->text + r->end - p));
}

static int equals(span a, const char *b, int64_t length) {
    return a.length == length && memcmp(a.begin, b, (size_t)length) == 0;
}

/* Hashing, as in hashing.py ------------------------------------------------------------------- */

static inline uint32_t rotated(uint32_t x, int by) { return x << by | x >> (32 - by); }

static inline uint32_t scrambled(uint32_t k) {
    return rotated(k * 0xcc9e2d51u, 15) * 0x1b873593u;
}

static inline uint32_t word(const byte *p) {
    uint32_t k;
    memcpy(&k, p, 4);
    return k;
}

static inline uint32_t mixed(uint32_t h, uint32_t k) {
    return rotated(h ^ scrambled(k), 13) * 5 + 0xe6546b64u;
}

/* Sixteen bytes from the text on must be readable. */
static inline uint32_t murmur3(const byte *text, int64_t length, uint32_t h) {
    const int64_t words = length >> 2;
    if (length < 16) { /* three words are mixed in, and chosen from: no branch on the length */
        uint32_t one = mixed(h, word(text)), two = mixed(one, word(text + 4)),
                 three = mixed(two, word(text + 8));
        h = words > 0 ? one : h;
        h = words > 1 ? two : h;
        h = words > 2 ? three : h;
    } else {
        for (int64_t i = 0; i < words; i++) h = mixed(h, word(text + 4 * i));
    }
    uint32_t rest = word(text + 4 * words) & ((1u << 8 * (length & 3)) - 1);
    h ^= scrambled(rest) ^ (uint32_t)length;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

static uint64_t number_of(span name, uint64_t seed) {
    uint64_t number = 0;
    for (int64_t i = 0; i < name.length; i++) {
        if (!is_digit(name.begin[i])) return murmur3(name.begin, name.length, (uint32_t)seed);
        number = number * 10 + (uint64_t)(name.begin[i] - '0');
    }
    return name.length ? number + seed : murmur3(name.begin, 0, (uint32_t)seed);
}

static uint64_t group_of(span name) {
    uint64_t first = name.length ? name.begin[0] : 0;
    return first << 32 | (number_of(name, 0) & 0xffffffffu);
}

/* Numbers ------------------------------------------------------------------------------------- */

enum { LARGEST_EXACT = 22, LARGEST_POWER = 290 };
static double POWERS[LARGEST_POWER + 1]; /* of ten; up to LARGEST_EXACT they are exact */
static locale_t plain_locale;

int prepare(void) {
    if (!plain_locale) plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain_locale) return 0;
    char text[16] = "1e";
    for (int i = 0; i <= LARGEST_POWER; i++) {
        text[2] = (char)('0' + i / 100), text[3] = (char)('0' + i / 10 % 10);
        text[4] = (char)('0' + i % 10), text[5] = 0;
        POWERS[i] = strtod_l(text, NULL, plain_locale);
    }
    return 1;
}

typedef struct {
    const byte *begin, *end;
    uint64_t mantissa;
    int32_t exponent;
    byte negative, is_short; /* short: the mantissa is all of the digits */
} decimal;

static const uint64_t WHOLE_POWERS[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

/* The digits at p as a number, eight at most; returns how many there are. */
static inline int digits(const byte *p, uint64_t *number) {
    uint64_t x;
    memcpy(&x, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    x -= 0x3030303030303030u; /* right up to the first byte that is no digit */
    const uint64_t others = ((x + 0x7676767676767676u) | x) & 0x8080808080808080u;
    const int count = others ? __builtin_ctzll(others) >> 3 : 8;
    x = x << (32 - 4 * count) << (32 - 4 * count); /* zeros before them; a shift by 64 is none */
    x = x * 10 + (x >> 8); /* pairs, in every second byte */
    *number = ((x & 0x000000ff000000ffu) * 0x000f424000000064u +
               (x >> 16 & 0x000000ff000000ffu) * 0x0000271000000001u) >> 32;
    return count;
}

/* Reads as far as a number goes; returns 0 if none begins here. */
static inline int read_decimal(const byte *p, decimal *d) {
    uint64_t m, more;
    d->begin = p;
    d->negative = *p == '-';
    p += *p == '-' || *p == '+';
    const byte *first = p;
    if (is_digit(*p) && !is_digit(p[1])) {
        m = (uint64_t)(*p++ - '0');
    } else {
        p += digits(p, &m);
        for (; is_digit(*p); p++) m = m * 10 + (uint64_t)(*p - '0');
    }
    int64_t count = p - first, fraction = 0;
    if (*p == '.') {
        const byte *point = ++p;
        const int few = digits(p, &more);
        m = m * WHOLE_POWERS[few] + more;
        p += few;
        for (; is_digit(*p); p++) m = m * 10 + (uint64_t)(*p - '0');
        fraction = p - point;
    }
    count += fraction;
    if (!count) return 0;
    int32_t exponent = 0;
    if ((*p | 32) == 'e') {
        const byte *e = p + 1;
        int is_negative = *e == '-';
        e += *e == '-' || *e == '+';
        if (is_digit(*e)) {
            for (; is_digit(*e); e++)
                if (exponent < 100000) exponent = exponent * 10 + (*e - '0');
            if (is_negative) exponent = -exponent;
            p = e;
        }
    }
    d->mantissa = m;
    d->is_short = count <= 19;
    d->exponent = count < 100000 ? exponent - (int32_t)fraction : exponent;
    d->end = p;
    return 1;
}

/* The next two return 0 for what is too long, or not finite. */
static inline int exact(const decimal *d, double *value) {
    double x;
    if (d->is_short && d->mantissa <= (uint64_t)1 << 53 && d->exponent >= -LARGEST_EXACT &&
        d->exponent <= LARGEST_EXACT) { /* two exact numbers, one rounding */
        x = (double)d->mantissa;
        x = d->exponent < 0 ? x / POWERS[-d->exponent] : x * POWERS[d->exponent];
        *value = d->negative ? -x : x;
        return 1;
    }
    char text[LONGEST_NUMBER + 1];
    int64_t length = d->end - d->begin;
    if (length > LONGEST_NUMBER) return 0;
    memcpy(text, d->begin, (size_t)length);
    text[length] = 0;
    *value = strtod_l(text, NULL, plain_locale);
    return isfinite(*value);
}

/* Decimal to double to float, as grammar.py does: where the neighbourhood of an inexact double
   rounds to one float, that is the float. */
static inline int single(const decimal *d, float *value) {
    double x;
    if (d->is_short && d->exponent >= -LARGEST_POWER && d->exponent <= LARGEST_POWER &&
        !(d->mantissa <= (uint64_t)1 << 53 && d->exponent >= -LARGEST_EXACT &&
          d->exponent <= LARGEST_EXACT)) {
        const double margin = 0x1p-50; /* three roundings make an error below 2^-51 */
        x = (double)d->mantissa;
        x = d->exponent < 0 ? x / POWERS[-d->exponent] : x * POWERS[d->exponent];
        float low = (float)(x * (1 - margin)), high = (float)(x * (1 + margin));
        if (low == high && isfinite(high)) {
            *value = d->negative ? -high : high;
            return 1;
        }
    }
    if (!exact(d, &x)) return 0;
    *value = (float)x;
    return isfinite(*value);
}

/* What follows the text must not be able to go on a number. */
static int is_number(span text, decimal *d) {
    return read_decimal(text.begin, d) && d->end == text.begin + text.length;
}

static int exact_text(span text, double *value) {
    decimal d;
    return is_number(text, &d) && exact(&d, value);
}

/* Labels, weights, tags ------------------------------------------------------------------------ */

static int set_label(reader *r, span text) {
    double value;
    if (r->label_kind == NO_LABELS) return 1;
    if (r->class_count) {
        int place = -1;
        for (int i = 0; i < r->class_count && place < 0; i++)
            if (equals(text, (const char *)r->classes[i].begin, r->classes[i].length)) place = i;
        if (place < 0) {
            if (!exact_text(text, &value)) return 0;
            for (int i = 0; i < r->class_count && place < 0; i++)
                if (r->class_numbers[i] == value) place = i;
            if (place < 0) return 0;
        }
        r->labels[r->row] = r->label_kind == CLASSES ? place : 2.0 * place - 1.0;
        return 1;
    }
    if (!exact_text(text, &value)) return 0;
    if (r->label_kind == BINARY) {
        if (value != -1 && value != 0 && value != 1) return 0;
        value = value > 0 ? 1 : -1;
    }
    if (r->label_kind == COUNTS && value < 0) return 0;
    r->labels[r->row] = value;
    return 1;
}

static int set_weight(reader *r, span text) {
    double value;
    if (!exact_text(text, &value) || value < 0) return 0;
    r->weights[r->row] = value;
    return 1;
}

static int set_tag(reader *r, span text) {
    if (!r->tags) return 1;
    int64_t begin = r->row ? r->tag_ends[r->row - 1] : 0;
    if (begin + text.length > r->tag_capacity) return 0;
    memcpy(r->tags + begin, text.begin, (size_t)text.length);
    r->tag_end = begin + text.length;
    return 1;
}

/* Rows ----------------------------------------------------------------------------------------- */

static inline void begin_row(reader *r) {
    r->labels[r->row] = NAN;
    r->weights[r->row] = 1;
    r->entry = r->indptr[r->row];
    r->tag_end = r->row ? r->tag_ends[r->row - 1] : 0;
}

static inline void put(reader *r, uint64_t index, float value, uint64_t group) {
    /* Without branches: what is 0 is overwritten by the next. */
    r->indices[r->entry] = (int32_t)(index & r->mask);
    r->values[r->entry] = value;
    if (r->groups) r->groups[r->entry] = group;
    r->entry += value != 0;
}

static int passes(uint64_t group, int32_t letter, int64_t number) {
    return (letter < 0 || (uint64_t)letter == group >> 32) &&
           (number < 0 || (uint64_t)number == (group & 0xffffffffu));
}

static enum status put_products(reader *r) {
    const int64_t begin = r->indptr[r->row], end = r->entry;
    for (int k = 0; k < r->interaction_count; k++) {
        const interaction *of = &r->interactions[k];
        int same = of->first_letter == of->second_letter && of->first_number == of->second_number;
        for (int64_t i = begin; i < end; i++) {
            if (!passes(r->groups[i], of->first_letter, of->first_number)) continue;
            for (int64_t j = same ? i : begin; j < end; j++) {
                if (!passes(r->groups[j], of->second_letter, of->second_number)) continue;
                if (r->entry >= r->entry_capacity) return FULL;
                float value = (float)((double)r->values[i] * (double)r->values[j]);
                if (!isfinite(value)) return ODD;
                uint64_t a = (uint64_t)r->indices[i], b = (uint64_t)r->indices[j];
                put(r, (16777619u * a) ^ b, value, 0);
            }
        }
    }
    return DONE;
}

static inline enum status end_row(reader *r, const byte *newline) {
    if (r->interaction_count) {
        enum status status = put_products(r);
        if (status != DONE) return status;
    }
    r->tag_ends[r->row] = r->tag_end;
    r->indptr[++r->row] = r->entry;
    r->begin = newline + 1 - r->text;
    r->lines++;
    return DONE;
}

static inline void end_blank(reader *r, const byte *newline) {
    r->begin = newline + 1 - r->text;
    r->lines++;
}

typedef enum status line_reader(reader *r, const byte *p);

static inline enum status each_line(reader *r, line_reader *read) {
    while (r->begin < r->end) {
        if (r->row >= r->row_capacity) return FULL;
        begin_row(r);
        enum status status = read(r, r->text + r->begin);
        if (status != DONE) return status;
    }
    return DONE;
}

/* svmlight ------------------------------------------------------------------------------------- */

static inline enum status svmlight_line(reader *r, const byte *p) {
    while (is_space(*p)) p++;
    span label = {p, 0};
    while (!is_space(*p) && *p != '#' && !is_end(p)) p++;
    label.length = p - label.begin;
    if (!label.length) {
        end_blank(r, line_end(r, p));
        return DONE;
    }
    if (!set_label(r, label)) return ODD;
    for (;;) {
        while (is_space(*p)) p++;
        const byte *begin = p;
        uint64_t index = 0;
        for (; is_digit(*p); p++) index = index * 10 + (uint64_t)(*p - '0');
        if (*p == ':' && p > begin) {
            float value = 1;
            p++;
            if (*p == '1' && (is_space(p[1]) || p[1] == '\n')) {
                p++;
            } else {
                decimal d;
                if (!read_decimal(p, &d) || !single(&d, &value)) return ODD;
                p = d.end;
                if (!is_space(*p) && *p != '#' && !is_end(p)) return ODD;
            }
            put(r, index, value, 0);
        } else if (p > begin) {
            return ODD;
        } else if (*p == '\n') {
            return end_row(r, p);
        } else if (*p == '#' || is_end(p)) {
            return end_row(r, line_end(r, p));
        } else if (memcmp(p, "qid:", 4) == 0) {
            while (!is_space(*p) && *p != '#' && !is_end(p)) p++;
        } else {
            return ODD;
        }
    }
}

int read_svmlight(reader *r) { return each_line(r, svmlight_line); }

/* Vowpal Wabbit -------------------------------------------------------------------------------- */

static const byte ENDS_NAME[256] = {[' '] = 1, ['\t'] = 1, [':'] = 1, ['|'] = 1,
                                    ['\n'] = 1, ['\r'] = 1};

static inline const byte *name_end(const byte *p) {
    for (;; p++) {
#ifdef __SSE2__
        for (;; p += 16) { /* the next that is a space, a control character, a colon or a bar */
            const __m128i c = _mm_loadu_si128((const __m128i *)p);
            const __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(c, _mm_set1_epi8(' ')), c);
            const __m128i mark = _mm_or_si128(_mm_cmpeq_epi8(c, _mm_set1_epi8(':')),
                                              _mm_cmpeq_epi8(c, _mm_set1_epi8('|')));
            const int found = _mm_movemask_epi8(_mm_or_si128(low, mark));
            if (found) {
                p += __builtin_ctz((unsigned)found);
                break;
            }
        }
#endif
        if (ENDS_NAME[*p] && (*p != '\r' || p[1] == '\n')) return p;
    }
}

static inline int ends_token(const byte *p) { return is_space(*p) || *p == '|' || is_end(p); }

static inline enum status vw_head(reader *r, const byte **line) {
    const byte *p = *line, *bar = p;
    span words[3];
    int count = 0;
    while (*bar != '|' && *bar != '\n') bar++;
    if (*bar == '\n') {
        while (is_space(*p)) p++;
        return is_end(p) ? FULL : ODD; /* FULL: blank, to the caller */
    }
    for (;;) {
        while (is_space(*p)) p++;
        if (p == bar) break;
        if (count == 3) return ODD;
        span word = {p, 0};
        while (!is_space(*p) && p < bar) p++;
        word.length = p - word.begin;
        words[count++] = word;
    }
    if (count && (!is_space(bar[-1]) || words[count - 1].begin[0] == '\'')) {
        span tag = words[--count];
        int is_quoted = tag.begin[0] == '\'';
        tag.begin += is_quoted, tag.length -= is_quoted;
        if (!set_tag(r, tag)) return ODD;
    }
    if (count > 2 || (count > 0 && !set_label(r, words[0])) ||
        (count > 1 && !set_weight(r, words[1])))
        return ODD;
    *line = bar;
    return DONE;
}

static inline enum status vw_line(reader *r, const byte *p) {
    enum status status = vw_head(r, &p);
    if (status == FULL) {
        end_blank(r, line_end(r, p));
        return DONE;
    }
    if (status != DONE) return status;
    decimal d;
    while (*p == '|') {
        uint64_t seed = 0, group = (uint64_t)' ' << 32, unnamed = 0;
        double scale = 1;
        float plain = 1;
        p++;
        if (!ends_token(p)) {
            span name = {p, 0};
            p = name_end(p);
            name.length = p - name.begin;
            if (!name.length) return ODD;
            seed = number_of(name, 0);
            group = group_of(name);
            if (*p == ':') {
                if (!read_decimal(p + 1, &d) || !exact(&d, &scale)) return ODD;
                plain = (float)scale;
                if (!ends_token(d.end)) return ODD;
                p = d.end;
                /* Only without a value is the scale itself a value. */
            }
        }
        for (;;) {
            while (is_space(*p)) p++;
            if (*p == '|') break;
            if (is_end(p)) return end_row(r, line_end(r, p));
            const byte *begin = p;
            uint64_t index = 0;
            for (; is_digit(*p); p++) index = index * 10 + (uint64_t)(*p - '0');
            if (ENDS_NAME[*p] && (*p != '\r' || p[1] == '\n')) {
                index = p > begin ? index + seed : seed + unnamed++;
            } else {
                p = name_end(p);
                index = murmur3(begin, p - begin, (uint32_t)seed);
            }
            float value = plain;
            if (*p == ':' && p[1] == '1' && ends_token(p + 2)) {
                p += 2;
            } else if (*p == ':') {
                if (!read_decimal(p + 1, &d)) return ODD;
                if (scale == 1) {
                    if (!single(&d, &value)) return ODD;
                } else {
                    double x;
                    if (!exact(&d, &x)) return ODD;
                    value = (float)(x * scale);
                }
                p = d.end;
                if (!ends_token(p)) return ODD;
            }
            if (!isfinite(value)) return ODD;
            put(r, index, value, group);
        }
    }
    return ODD;
}

int read_vw(reader *r) { return each_line(r, vw_line); }

/* Cells and fields: CSV and JSON --------------------------------------------------------------- */

static int is_missing(span text) {
    const byte *t = text.begin;
    switch (text.length) {
        case 0: return 1;
        case 1: return t[0] == '?';
        case 2: return equals(text, "NA", 2);
        case 3:
            return equals(text, "NaN", 3) || equals(text, "nan", 3) || equals(text, "N/A", 3) ||
                   equals(text, "n/a", 3);
        case 4:
            return equals(text, "null", 4) || equals(text, "NULL", 4) || equals(text, "None", 4);
        default: return 0;
    }
}

static int is_not_finite(span text) {
    static const char *const WORDS[] = {"nan", "inf", "infinity"};
    if (text.length && (*text.begin == '+' || *text.begin == '-')) text.begin++, text.length--;
    for (int k = 0; k < 3; k++) {
        int64_t length = (int64_t)strlen(WORDS[k]), i = 0;
        if (text.length != length) continue;
        while (i < length && (text.begin[i] | 32) == WORDS[k][i]) i++;
        if (i == length) return 1;
    }
    return 0;
}

/* The feature name=text. */
static int put_category(reader *r, span name, span text, uint64_t group) {
    byte full[SCRATCH + 16];
    if (name.length + 1 + text.length > SCRATCH) return 0;
    memcpy(full, name.begin, (size_t)name.length);
    full[name.length] = '=';
    memcpy(full + name.length + 1, text.begin, (size_t)text.length);
    put(r, murmur3(full, name.length + 1 + text.length, 0), 1, group);
    return 1;
}

static int put_field(reader *r, span name, span text, int is_categorical, uint64_t group) {
    decimal d;
    float value;
    if (!is_categorical) {
        if (is_number(text, &d)) {
            if (!single(&d, &value)) return 0;
            put(r, number_of(name, 0), value, group);
            return 1;
        }
        if (is_not_finite(text)) return 0;
    }
    return put_category(r, name, text, group);
}

/* CSV ------------------------------------------------------------------------------------------ */

static inline enum status csv_line(reader *r, const byte *p) {
    const byte *end = line_end(r, p), *newline = end;
    const byte delimiter = (byte)r->delimiter;
    byte quoted[SCRATCH + 16];
    if (end > p && end[-1] == '\r') end--;
    const byte *q = p;
    while (q < end && is_space(*q)) q++;
    if (q == end) {
        end_blank(r, newline);
        return DONE;
    }
    for (int column = 0;; column++) {
        if (column == r->column_count) return ODD;
        while (p < end && is_space(*p) && *p != delimiter) p++;
        span cell = {p, 0};
        if (p < end && *p == '"') {
            int64_t length = 0;
            for (p++;; p++) {
                if (p == end || length >= SCRATCH) return ODD;
                if (*p == '"') {
                    if (p + 1 >= end || p[1] != '"') break;
                    p++;
                }
                quoted[length++] = *p;
            }
            quoted[length] = '\n'; /* what ends a number */
            p++;
            while (p < end && is_space(*p) && *p != delimiter) p++;
            if (p < end && *p != delimiter) return ODD;
            cell.begin = quoted, cell.length = length;
        } else {
            while (p < end && *p != delimiter) p++;
            const byte *last = p;
            while (last > cell.begin && is_space(last[-1]) && last[-1] != delimiter) last--;
            cell.length = last - cell.begin;
        }
        const named *of = &r->columns[column];
        switch (of->role) {
            case LABEL:
                if (!is_missing(cell) && !set_label(r, cell)) return ODD;
                break;
            case WEIGHT:
                if (!set_weight(r, cell)) return ODD;
                break;
            case TAG:
                if (!set_tag(r, cell)) return ODD;
                break;
            case IGNORED: break;
            default:
                if (is_missing(cell)) break;
                if (!put_field(r, of->name, cell, of->role == CATEGORICAL,
                               r->groups ? group_of(of->name) : 0))
                    return ODD;
        }
        if (p == end) return column + 1 == r->column_count ? end_row(r, newline) : ODD;
        p++;
    }
}

int read_csv(reader *r) { return each_line(r, csv_line); }

/* JSON lines ----------------------------------------------------------------------------------- */

typedef struct {
    reader *r;
    const byte *p;
    int role;
    uint64_t group;
    int64_t name_length;
    byte name[SCRATCH]; /* of the field, dots and all */
} json;

static inline void skip_blanks(json *j) {
    while (is_space(*j->p) || *j->p == '\r') j->p++;
}

static int put_utf8(byte *out, uint32_t c) {
    if (c < 0x80) return out[0] = (byte)c, 1;
    if (c < 0x800) return out[0] = (byte)(0xc0 | c >> 6), out[1] = (byte)(0x80 | (c & 63)), 2;
    if (c < 0x10000) {
        out[0] = (byte)(0xe0 | c >> 12), out[1] = (byte)(0x80 | (c >> 6 & 63));
        return out[2] = (byte)(0x80 | (c & 63)), 3;
    }
    out[0] = (byte)(0xf0 | c >> 18), out[1] = (byte)(0x80 | (c >> 12 & 63));
    out[2] = (byte)(0x80 | (c >> 6 & 63));
    return out[3] = (byte)(0x80 | (c & 63)), 4;
}

/* How many bytes the character takes; 0 if it is not UTF-8. */
static int utf8_length(const byte *p) {
    byte a = p[0], b = p[1];
    int length = a < 0x80 ? 1 : a < 0xc2 ? 0 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : a < 0xf5 ? 4 : 0;
    for (int i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((a == 0xe0 && b < 0xa0) || (a == 0xed && b > 0x9f) || (a == 0xf0 && b < 0x90) ||
        (a == 0xf4 && b > 0x8f))
        return 0;
    return length;
}

static int four_hex(const byte *p, uint32_t *value) {
    *value = 0;
    for (int i = 0; i < 4; i++) {
        byte c = p[i];
        uint32_t digit;
        if (is_digit(c)) digit = (uint32_t)(c - '0');
        else if ((byte)((c | 32) - 'a') < 6) digit = (uint32_t)((c | 32) - 'a' + 10);
        else return 0;
        *value = *value << 4 | digit;
    }
    return 1;
}

/* At the opening quote; leaves what is inside in `out`, without escapes. */
static int json_string(json *j, byte out[SCRATCH], span *text) {
    const byte *p = j->p;
    int64_t n = 0;
    if (*p++ != '"') return 0;
    while (*p != '"') {
        if (n > SCRATCH - 8 || *p < 0x20) return 0;
        if (*p == '\\') {
            static const char LETTERS[] = "\"\\/bfnrt", MEANINGS[] = "\"\\/\b\f\n\r\t";
            if (p[1] == 'u') {
                uint32_t c, low;
                if (!four_hex(p + 2, &c)) return 0;
                p += 6;
                if (c >= 0xd800 && c < 0xe000) { /* halves of a character */
                    if (c >= 0xdc00 || p[0] != '\\' || p[1] != 'u' || !four_hex(p + 2, &low) ||
                        low < 0xdc00 || low >= 0xe000)
                        return 0;
                    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                    p += 6;
                }
                n += put_utf8(out + n, c);
            } else {
                const char *at = p[1] ? strchr(LETTERS, p[1]) : NULL;
                if (!at) return 0;
                out[n++] = (byte)MEANINGS[at - LETTERS];
                p += 2;
            }
        } else {
            int length = utf8_length(p);
            if (!length) return 0;
            memcpy(out + n, p, (size_t)length);
            n += length, p += length;
        }
    }
    j->p = p + 1;
    text->begin = out, text->length = n;
    return 1;
}

static int json_number(json *j, span *text) {
    const byte *p = j->p;
    p += *p == '-';
    if (*p == '0') p++;
    else if (is_digit(*p)) while (is_digit(*p)) p++;
    else return 0;
    if (*p == '.') {
        if (!is_digit(*++p)) return 0;
        while (is_digit(*p)) p++;
    }
    if ((*p | 32) == 'e') {
        p++;
        p += *p == '-' || *p == '+';
        if (!is_digit(*p)) return 0;
        while (is_digit(*p)) p++;
    }
    text->begin = j->p, text->length = p - j->p;
    j->p = p;
    return 1;
}

static int json_value(json *j, int depth);

static int append_name(json *j, span text) {
    if (j->name_length + 1 + text.length > SCRATCH) return 0;
    j->name[j->name_length++] = '.';
    memcpy(j->name + j->name_length, text.begin, (size_t)text.length);
    j->name_length += text.length;
    return 1;
}

static int json_scalar(json *j, span text, int is_string) {
    span name = {j->name, j->name_length};
    switch (j->role) {
        case LABEL: return set_label(j->r, text);
        case WEIGHT: return set_weight(j->r, text);
        case TAG: return set_tag(j->r, text);
        case IGNORED: return 1;
        default:
            if (is_string) return put_category(j->r, name, text, j->group);
            return put_field(j->r, name, text, j->role == CATEGORICAL, j->group);
    }
}

static int json_object(json *j, int depth) {
    const int64_t name_length = j->name_length;
    byte scratch[SCRATCH];
    span key;
    j->p++;
    skip_blanks(j);
    if (*j->p == '}') return j->p++, 1;
    for (;;) {
        skip_blanks(j);
        if (!json_string(j, scratch, &key)) return 0;
        skip_blanks(j);
        if (*j->p++ != ':') return 0;
        if (depth == 1) {
            const reader *r = j->r;
            memcpy(j->name, key.begin, (size_t)key.length);
            j->name_length = key.length;
            j->role = FEATURE;
            for (int i = 0; i < r->column_count; i++)
                if (equals(key, (const char *)r->columns[i].name.begin, r->columns[i].name.length)) {
                    j->role = r->columns[i].role;
                    break;
                }
            j->group = r->groups ? group_of(key) : 0;
        } else if (!append_name(j, key)) {
            return 0;
        }
        if (!json_value(j, depth)) return 0;
        j->name_length = name_length;
        skip_blanks(j);
        if (*j->p == '}') return j->p++, 1;
        if (*j->p++ != ',') return 0;
    }
}

static int json_list(json *j, int depth) {
    const int64_t name_length = j->name_length;
    j->p++;
    skip_blanks(j);
    if (*j->p == ']') return j->p++, 1;
    for (int64_t i = 0;; i++) {
        skip_blanks(j);
        if (*j->p != '"') {
            byte digits[20];
            int length = 0;
            int64_t n = i;
            do digits[19 - length++] = (byte)('0' + n % 10);
            while (n /= 10);
            span number = {digits + 20 - length, length};
            if (!append_name(j, number)) return 0;
        }
        if (!json_value(j, depth)) return 0;
        j->name_length = name_length;
        skip_blanks(j);
        if (*j->p == ']') return j->p++, 1;
        if (*j->p++ != ',') return 0;
    }
}

static int json_value(json *j, int depth) {
    static const span ONE = {(const byte *)"1\n", 1}, ZERO = {(const byte *)"0\n", 1},
                      NOTHING = {(const byte *)"\n", 0};
    byte scratch[SCRATCH + 16];
    span text;
    int is_feature = j->role == FEATURE || j->role == CATEGORICAL || j->role == IGNORED;
    skip_blanks(j);
    switch (*j->p) {
        case '{': return depth < DEEPEST && is_feature && json_object(j, depth + 1);
        case '[': return depth < DEEPEST && is_feature && json_list(j, depth + 1);
        case '"':
            if (!json_string(j, scratch, &text)) return 0;
            scratch[text.length] = '\n'; /* what ends a number */
            return json_scalar(j, text, 1);
        case 't':
            if (memcmp(j->p, "true", 4)) return 0;
            return j->p += 4, json_scalar(j, ONE, 0);
        case 'f':
            if (memcmp(j->p, "false", 5)) return 0;
            return j->p += 5, json_scalar(j, ZERO, 0);
        case 'n':
            if (memcmp(j->p, "null", 4)) return 0;
            j->p += 4;
            return j->role == TAG ? json_scalar(j, NOTHING, 0) : j->role != WEIGHT;
        default: return json_number(j, &text) && json_scalar(j, text, 0);
    }
}

static inline enum status json_line(reader *r, const byte *p) {
    json j = {.r = r, .p = p};
    skip_blanks(&j);
    if (*j.p == '\n') {
        end_blank(r, j.p);
        return DONE;
    }
    if (*j.p != '{' || !json_object(&j, 1)) return ODD;
    skip_blanks(&j);
    return *j.p == '\n' ? end_row(r, j.p) : ODD;
}

int read_jsonl(reader *r) { return each_line(r, json_line); }
