// The next tokens of a language model, without Python between its steps: they are chosen by the logits of one step, and are the
// inputs of the next one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace mgx {

struct Candidate {
    float score;
    int64_t token;
};

struct Decode {
    const float* logits;  // {sequences, vocabulary}, of the step before
    int64_t sequences, vocabulary;
    int64_t* ids;         // {sequences}, {sequences}, {}: what the next step reads, and the position that it writes to
    int64_t* positions;
    int64_t* start;
    int64_t* text;        // {most, sequences}: the tokens that were chosen; `count` rows so far
    int64_t count, most;
    const int64_t* ends;  // {end_count}: a sequence ends with one of these, and goes on with `padding`; negative: with any
    int64_t end_count, padding;
    bool* ended;          // {sequences}
    int64_t top_k;        // how many of the largest scores count, at most `vocabulary`; 0: the likeliest token, and nothing is drawn
    double top_p;         // the likeliest of these, as far as they make up so much together; 1: all
    float temperature;
    const double* uniform;      // {most, sequences, vocabulary} in [0, 1): random numbers; `rows` of tokens, then from the beginning
    int64_t rows;
    float* scores;              // {vocabulary}
    float* largest;             // {top_k}
    Candidate* candidates;      // {vocabulary}
    int (*told)();              // where not null, called behind each token; the last one, where it answers 0
};

// The largest number's place; negative where one is not a number.
inline int64_t likeliest(const float* x, int64_t n) {
    constexpr int LANES = 16;
    float most[LANES];
    int odd[LANES] = {};
    for (int l = 0; l < LANES; ++l) most[l] = -INFINITY;
    int64_t k = 0;
    for (; k + LANES <= n; k += LANES)
        for (int l = 0; l < LANES; ++l) {
            most[l] = x[k + l] > most[l] ? x[k + l] : most[l];
            odd[l] |= x[k + l] != x[k + l];
        }
    for (; k < n; ++k) {
        most[0] = x[k] > most[0] ? x[k] : most[0];
        odd[0] |= x[k] != x[k];
    }
    for (int l = 1; l < LANES; ++l) {
        most[0] = std::max(most[0], most[l]);
        odd[0] |= odd[l];
    }
    if (odd[0]) return -1;
    for (k = 0; x[k] != most[0];) ++k;
    return k;
}

// The k-th largest of n numbers.
inline float kth_largest(const float* x, int64_t n, float* heap, int64_t k) {
    constexpr int64_t BLOCK = 64;
    const auto larger = [](float a, float b) { return a > b; };
    std::copy(x, x + k, heap);
    std::make_heap(heap, heap + k, larger);
    for (int64_t begin = k; begin < n; begin += BLOCK) {
        const int64_t end = std::min(begin + BLOCK, n);
        int any = 0;
        for (int64_t i = begin; i < end; ++i) any |= x[i] > heap[0];
        for (int64_t i = begin; any && i < end; ++i) {
            if (x[i] <= heap[0]) continue;
            std::pop_heap(heap, heap + k, larger);
            heap[k - 1] = x[i];
            std::push_heap(heap, heap + k, larger);
        }
    }
    return heap[0];
}

// Leaves out the least likely candidates of all, as far as they make up no more than 1 - top_p together; returns how many stay.
inline int64_t keep_top_p(Candidate* c, int64_t n, double top_p, float most) {
    std::sort(c, c + n, [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    double all = 0, least = 0;
    for (int64_t i = 0; i < n; ++i) all += std::exp(double(c[i].score - most));
    while (n > 1 && (least += std::exp(double(c[n - 1].score - most)) / all) <= 1 - top_p) --n;
    return n;
}

// A token that is drawn as torch.multinomial draws: each gets an exponential number, and the largest ratio of probability to
// number wins. Negative where a score is no finite number.
inline int64_t drawn(const Decode& d, const float* logits, const double* uniform) {
    const int64_t best = likeliest(logits, d.vocabulary);
    const float most = best < 0 ? NAN : logits[best] / d.temperature;
    if (!std::isfinite(most)) return -1;
    for (int64_t i = 0; i < d.vocabulary; ++i) d.scores[i] = logits[i] / d.temperature;
    const float least = kth_largest(d.scores, d.vocabulary, d.largest, d.top_k);
    int64_t count = 0;
    for (int64_t i = 0; i < d.vocabulary; ++i) {
        d.candidates[count] = {d.scores[i], i};
        count += d.scores[i] >= least;
    }
    if (d.top_p < 1) count = keep_top_p(d.candidates, count, d.top_p, most);
    int64_t found = best;
    float ratio = -1;
    for (int64_t i = 0; i < count; ++i) {
        const Candidate c = d.candidates[i];
        const float own = std::exp(c.score - most) / float(-std::log1p(-uniform[c.token]));
        if (own > ratio) ratio = own, found = c.token;
    }
    return found;
}

// Chooses a token of each sequence; whether they are the inputs of another step. Nothing is chosen where logits are no numbers.
inline bool more(Decode& d) {
    int64_t* const chosen = d.text + d.count * d.sequences;
    const double* const uniform = d.top_k ? d.uniform + d.count % d.rows * d.sequences * d.vocabulary : nullptr;
    bool all = true;
    for (int64_t s = 0; s < d.sequences; ++s) {
        const float* const logits = d.logits + s * d.vocabulary;
        const int64_t token = d.top_k ? drawn(d, logits, uniform + s * d.vocabulary) : likeliest(logits, d.vocabulary);
        if (token < 0) return false;
        chosen[s] = d.ended[s] && d.padding >= 0 ? d.padding : token;
    }
    for (int64_t s = 0; s < d.sequences; ++s) {
        d.ended[s] |= std::find(d.ends, d.ends + d.end_count, chosen[s]) != d.ends + d.end_count;
        all &= d.ended[s];
        d.ids[s] = chosen[s];
        ++d.positions[s];
    }
    ++*d.start;
    ++d.count;
    return !(d.told && !d.told()) && !all && d.count < d.most;
}

}  // namespace mgx
