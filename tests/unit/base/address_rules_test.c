#include "base/address_rules.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>

#include "support/test.h"

enum { SPELLINGS_MIN = 150 };

/* Spellings of addresses that are not public, as a URL or a resolver may give them. Those without brackets are read by
 * getaddrinfo(), which knows octal, hexadecimal and shortened forms. */
static const char *const refused[] = {
    /* loopback */
    "127.0.0.1", "127.0.0.0", "127.0.1.1", "127.1.2.3", "127.255.255.255", "127.1", "127.0.1", "2130706433", "0x7f000001",
    "0x7f.1", "0x7f.0.0.1", "0x7F.0x0.0x0.0x1", "017700000001", "0177.0.0.1", "0177.1", "00000177.0.0.1", "0177.0x0.0.1",
    "127.0x1", "127.0.0x1", "2130706434", "0x7fffffff", "127.127.127.127", "127.65535", "127.0.65535", "127.16777215",
    "::1", "0:0:0:0:0:0:0:1", "0000:0000:0000:0000:0000:0000:0000:0001", "::0001", "0::1", "::ffff:127.0.0.1",
    "::ffff:7f00:1", "::FFFF:127.0.0.1", "0:0:0:0:0:ffff:127.0.0.1", "::ffff:7f00:0001", "::ffff:127.255.255.254",
    "::127.0.0.1", "::7f00:1", "::2:127.0.0.1",
    /* this host */
    "0.0.0.0", "0", "0x0", "00", "0.0", "0.1.2.3", "0.255.255.255", "::", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0", "::ffff:0:0",
    /* metadata, and all of link-local */
    "169.254.169.254", "169.254.0.1", "169.254.255.255", "2852039166", "0xa9fea9fe", "0xa9.0xfe.0xa9.0xfe",
    "0251.0376.0251.0376", "025177524776", "169.254.43518", "169.16689662", "0xa9.254.0251.254", "169.254.170.2",
    "169.254.169.253", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::169.254.169.254", "fe80::1",
    "fe80::", "fe80::a9fe:a9fe", "fe80:0:0:0:200:5efe:a9fe:a9fe", "febf:ffff::1", "fd00:ec2::254", "fd20:ce::254",
    "168.63.129.16", "0xa83f8110", "100.100.100.200", "192.0.0.192",
    /* private */
    "10.0.0.0", "10.0.0.1", "10.255.255.255", "10.1", "167772161", "0xa000001", "012.0.0.1", "0xa.0.0.1", "172.16.0.1",
    "172.16.0.0", "172.31.255.255", "172.20.10.1", "2886729729", "0xac100001", "0254.020.0.1", "192.168.0.1", "192.168.0.0",
    "192.168.255.255", "192.168.257", "3232235521", "0xc0a80001", "0300.0250.0.1", "0xc0.0xa8.1", "::ffff:10.0.0.1",
    "::ffff:192.168.0.1", "::ffff:172.16.0.1", "::ffff:c0a8:1", "fc00::", "fc00::1", "fd00::1", "fdff:ffff:ffff::1",
    "fec0::1", "feff::1",
    /* shared by the customers of a provider */
    "100.64.0.0", "100.64.0.1", "100.127.255.255", "1681915905", "::ffff:100.64.0.1",
    /* protocol assignments, documentation, benchmarks, relays */
    "192.0.0.1", "192.0.0.170", "192.0.2.1", "192.0.2.255", "198.51.100.7", "203.0.113.9", "198.18.0.1", "198.19.255.255",
    "192.88.99.1", "2001:db8::1", "2001:db8:ffff::1", "3fff::1", "3fff:fff::1", "2001:2::1", "2001:10::1", "2001:20::1",
    "100::1", "5f00::1",
    /* multicast, reserved, broadcast */
    "224.0.0.1", "239.255.255.255", "232.1.1.1", "240.0.0.1", "255.255.255.255", "255.255.255.254", "4294967295",
    "0xffffffff", "037777777777", "254.1.1.1", "::ffff:224.0.0.1", "::ffff:255.255.255.255", "ff00::1", "ff02::1",
    "ff05::2", "ff0e::1", "ffff::1",
    /* IPv4 inside IPv6: NAT64, 6to4, Teredo, ISATAP, translated */
    "64:ff9b::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::1",
    "64:ff9b:1::10.0.0.1", "2002:7f00:1::", "2002:7f00:0001::1", "2002:a9fe:a9fe::1", "2002:a00:1::", "2002:c0a8:1::1",
    "2002:808:808::1", "2001:0:7f00:1::", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2a00::5efe:10.0.0.1",
    "2a00::200:5efe:127.0.0.1", "2600:1:2:3:0:5efe:a9fe:a9fe", "::ffff:0:127.0.0.1", "::ffff:0:10.0.0.1",
    /* outside of what is assigned to global unicast */
    "4000::1", "8000::1", "e000::1", "1000::1", "400::1"};

static const char *const public_addresses[] = {"8.8.8.8",
                                               "1.1.1.1",
                                               "9.255.255.255",
                                               "11.0.0.0",
                                               "100.63.255.255",
                                               "100.128.0.0",
                                               "126.255.255.255",
                                               "128.0.0.1",
                                               "169.253.255.255",
                                               "169.255.0.0",
                                               "172.15.255.255",
                                               "172.32.0.0",
                                               "192.0.1.0",
                                               "192.0.3.0",
                                               "192.167.255.255",
                                               "192.169.0.0",
                                               "198.17.255.255",
                                               "198.20.0.0",
                                               "223.255.255.255",
                                               "168.63.129.15",
                                               "0x08080808",
                                               "134744072",
                                               "::ffff:8.8.8.8",
                                               "2001:4860:4860::8888",
                                               "2606:4700:4700::1111",
                                               "2a00:1450::1",
                                               "2001:200::1",
                                               "2003::1",
                                               "3ffe::1"};

/* An address out of its spelling; the caller frees it. */
static struct addrinfo *address_of(const char *spelling)
{
    struct addrinfo wanted = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(spelling, "80", &wanted, &found) != 0) {
        fail_msg("%s is no spelling of an address", spelling);
    }
    return found;
}

static bool allows(const struct address_rules *rules, const char *host, const char *spelling)
{
    struct addrinfo *address = address_of(spelling);
    bool is_allowed = address_rules_allow(rules, host, address->ai_addr, address->ai_addrlen);
    freeaddrinfo(address);
    return is_allowed;
}

static void open_rules(struct address_rules *rules, const char *const *list)
{
    struct weir_error error = {.message = ""};
    assert_int_equal(address_rules_open(rules, list, &error), WEIR_OK);
}

static void no_spelling_of_an_address_that_is_not_public_is_allowed(void **state)
{
    (void)state;
    struct address_rules rules;
    open_rules(&rules, (const char *const[]){"*", NULL});
    assert_true(sizeof refused / sizeof refused[0] >= SPELLINGS_MIN);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (allows(&rules, "example.com", refused[i])) {
            fail_msg("%s is allowed", refused[i]);
        }
    }
    address_rules_close(&rules);
}

static void public_addresses_are_allowed_up_to_the_edges_of_the_others(void **state)
{
    (void)state;
    struct address_rules rules;
    open_rules(&rules, (const char *const[]){"*", NULL});
    for (size_t i = 0; i < sizeof public_addresses / sizeof public_addresses[0]; i++) {
        if (!allows(&rules, "example.com", public_addresses[i])) {
            fail_msg("%s is refused", public_addresses[i]);
        }
    }
    address_rules_close(&rules);
}

static void other_families_and_short_addresses_are_refused(void **state)
{
    (void)state;
    struct address_rules rules;
    struct sockaddr_storage address = {.ss_family = AF_UNIX};
    open_rules(&rules, (const char *const[]){"*", "::/0", NULL});
    assert_false(address_rules_allow(&rules, "a.test", (struct sockaddr *)&address, sizeof address));
    address.ss_family = AF_INET;
    assert_false(address_rules_allow(&rules, "a.test", (struct sockaddr *)&address, 4));
    address.ss_family = AF_INET6;
    assert_false(address_rules_allow(&rules, "a.test", (struct sockaddr *)&address, 16));
    address_rules_close(&rules);
}

static void a_listed_host_is_reached_at_public_addresses_only(void **state)
{
    (void)state;
    struct address_rules rules;
    open_rules(&rules, (const char *const[]){"api.example.com", "*.Trusted.test", NULL});
    assert_true(allows(&rules, "api.example.com", "8.8.8.8"));
    assert_true(allows(&rules, "API.example.COM.", "8.8.8.8"));
    assert_true(allows(&rules, "a.trusted.test", "8.8.8.8"));
    assert_true(allows(&rules, "a.b.trusted.test", "8.8.8.8"));
    assert_false(allows(&rules, "api.example.com", "10.0.0.1"));
    assert_false(allows(&rules, "trusted.test", "8.8.8.8"));
    assert_false(allows(&rules, "nottrusted.test", "8.8.8.8"));
    assert_false(allows(&rules, "api.example.com.evil.test", "8.8.8.8"));
    assert_false(allows(&rules, "evil-api.example.com", "8.8.8.8"));
    assert_false(allows(&rules, "8.8.8.8", "8.8.8.8"));
    assert_true(address_rules_may_allow(&rules, "api.example.com"));
    assert_false(address_rules_may_allow(&rules, "evil.test"));
    address_rules_close(&rules);
}

static void a_listed_network_is_open_under_any_name(void **state)
{
    (void)state;
    struct address_rules rules;
    open_rules(&rules, (const char *const[]){"10.1.0.0/16", "127.0.0.1", "fd00:1::/32", NULL});
    assert_true(allows(&rules, "any.test", "10.1.2.3"));
    assert_true(allows(&rules, "any.test", "::ffff:10.1.2.3"));
    assert_true(allows(&rules, "any.test", "127.0.0.1"));
    assert_true(allows(&rules, "any.test", "fd00:1::5"));
    assert_false(allows(&rules, "any.test", "10.2.0.0"));
    assert_false(allows(&rules, "any.test", "10.0.255.255"));
    assert_false(allows(&rules, "any.test", "127.0.0.2"));
    assert_false(allows(&rules, "any.test", "fd00:2::5"));
    assert_false(allows(&rules, "any.test", "8.8.8.8"));
    assert_true(address_rules_may_allow(&rules, "any.test"));
    address_rules_close(&rules);
}

static void no_list_allows_nothing(void **state)
{
    (void)state;
    struct address_rules rules;
    open_rules(&rules, NULL);
    assert_false(allows(&rules, "example.com", "8.8.8.8"));
    assert_false(address_rules_may_allow(&rules, "example.com"));
    address_rules_close(&rules);
}

static void other_entries_are_refused_with_the_right_forms(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",           "10.0.0.0/33", "::/129",      "10.0.0.0/",   "10.0.0.0/-1", "10.0.0/8",   "0x7f.1",
        "2130706433", "*.*.test",    "a*.test",     "a..test",     ".test",       "http://a.b", "a.test:443",
        "[::1]",      "bücher.test", "a.test/path", "10.0.0.0/8x", "1.2.3",       "a b",        "user@a.test"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct address_rules rules;
        struct weir_error error = {.message = ""};
        const char *const list[] = {"*", wrong[i], NULL};
        if (address_rules_open(&rules, list, &error) != WEIR_INVALID_ARGUMENT) {
            fail_msg("\"%s\" was taken", wrong[i]);
        }
        assert_non_null(strstr(error.message, "is neither a host name nor an address nor a network"));
        assert_non_null(strstr(error.hint, "10.1.0.0/16"));
        address_rules_close(&rules);
    }
}

static void too_many_entries_are_refused(void **state)
{
    (void)state;
    const char *list[ADDRESS_RULES_MAX + 2];
    struct address_rules rules;
    struct weir_error error = {.message = ""};
    for (size_t i = 0; i < ADDRESS_RULES_MAX + 1; i++) {
        list[i] = "a.test";
    }
    list[ADDRESS_RULES_MAX + 1] = NULL;
    assert_int_equal(address_rules_open(&rules, list, &error), WEIR_INVALID_ARGUMENT);
    assert_string_equal(error.message, "more than 256 hosts and networks");
    address_rules_close(&rules);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_spelling_of_an_address_that_is_not_public_is_allowed),
        cmocka_unit_test(public_addresses_are_allowed_up_to_the_edges_of_the_others),
        cmocka_unit_test(other_families_and_short_addresses_are_refused),
        cmocka_unit_test(a_listed_host_is_reached_at_public_addresses_only),
        cmocka_unit_test(a_listed_network_is_open_under_any_name),
        cmocka_unit_test(no_list_allows_nothing),
        cmocka_unit_test(other_entries_are_refused_with_the_right_forms),
        cmocka_unit_test(too_many_entries_are_refused),
    };
    return cmocka_run_group_tests_name("address_rules", tests, NULL, NULL);
}
