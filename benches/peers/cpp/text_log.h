// A log in text, one line for each event, as RMM's logging_resource_adaptor writes it:
// thread, time of day in microseconds, action, pointer, size, stream.
//
// RMM formats a message with snprintf, hands it to spdlog's file sink, which stamps it under its lock and
// writes it to a buffered FILE; no flush after a line, RMM's default
// (https://github.com/rapidsai/rmm, cpp/src/mr/detail/logging_resource_adaptor_impl.cpp). This is the same work
// with less: one snprintf, where RMM's logger measures the message first.

#pragma once

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <mutex>

#include "fail.h"

class TextLog {
 public:
    TextLog() : file_(std::tmpfile()) {
        expect(file_ != nullptr, "no temporary file for the text log");
    }

    void line(const char* action, const void* ptr, size_t size, const void* stream) {
        char message[128];
        const int length = std::snprintf(message, sizeof message, "%s,%p,%zu,%p", action, ptr, size, stream);
        thread_local const long thread = syscall(SYS_gettid);
        timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        std::lock_guard guard(lock_);
        if (now.tv_sec != second_) {  // As spdlog: the calendar is asked once a second.
            tm calendar;
            localtime_r(&now.tv_sec, &calendar);
            std::strftime(clock_, sizeof clock_, "%H:%M:%S", &calendar);
            second_ = now.tv_sec;
        }
        char line[192];
        char* end = append(line, thread);
        *end++ = ',';
        for (const char* c = clock_; *c; ++c) *end++ = *c;
        *end++ = '.';
        end = append(end, now.tv_nsec / 1000, 6);
        *end++ = ',';
        for (int i = 0; i < length; ++i) *end++ = message[i];
        *end++ = '\n';
        std::fwrite(line, 1, static_cast<size_t>(end - line), file_);
    }

    void clear() {
        std::rewind(file_);
        expect(ftruncate(fileno(file_), 0) == 0, "the text log cannot be emptied");
    }

    int64_t lines() {
        std::rewind(file_);
        int64_t lines = 0;
        char buffer[1 << 16];
        while (const size_t read = std::fread(buffer, 1, sizeof buffer, file_)) {
            for (size_t i = 0; i < read; ++i) lines += buffer[i] == '\n';
        }
        expect(!std::ferror(file_), "the text log cannot be read or written");
        return lines;
    }

 private:
    static char* append(char* at, long number, int width = 1) {
        char digits[20];
        int count = 0;
        for (; number > 0 || count < width; number /= 10) digits[count++] = static_cast<char>('0' + number % 10);
        while (count > 0) *at++ = digits[--count];
        return at;
    }

    std::FILE* file_;
    std::mutex lock_;
    time_t second_ = -1;
    char clock_[16] = "";
};
