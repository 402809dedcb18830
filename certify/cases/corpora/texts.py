"""The prompts of the corpus, by stratum and name. White space within a text is folded to single blanks."""

JSON = {
    "json-inventory": """
        Write a JSON array with forty objects that describe the stock of a small hardware shop. Every object has the
        keys "sku" (a string such as "HW-0001", counting up by one), "name" (a short English product name), "category"
        (one of "fasteners", "tools", "paint", "garden", "electrical"), "stock" (an integer from 0 to 500), "price_eur"
        (a number with two decimals), "reorder" (true when stock lies below 40, else false) and "tags" (an array of
        two short lower-case words). Indent by two blanks. Write all forty objects one after another, without comments
        and without any text before or after the array.
    """,
    "json-calendar": """
        Produce a JSON object for the calendar of a school week. At the top level stands "week" (the number 37) and
        "days", an array of five objects from Monday to Friday. Each day has "name", "date" in the form YYYY-MM-DD
        beginning with 2026-09-07, and "lessons", an array of six lessons. A lesson has "start" and "end" as HH:MM in
        steps of fifty minutes with ten minutes between them, beginning at 08:00, then "subject", "teacher", "room"
        (three digits) and "homework" (a sentence, or null). No teacher stands in two rooms at once. Indent by two
        blanks and write nothing but the object.
    """,
    "json-tool-plan": """
        You plan the steps of an automated assistant that moves the photographs of a family from an old disk into a
        new archive. Answer with a JSON array of thirty steps. Each step is an object with "id" (counting from 1),
        "tool" (one of "list_files", "read_metadata", "copy_file", "verify_checksum", "write_index", "send_message"),
        "arguments" (an object that fits the tool, with full paths below /archive/2019), "depends_on" (an array of the
        ids that must be done before) and "on_failure" (either "retry", "skip" or "stop"). Let the steps follow each
        other sensibly, check every copy, and end with a message to the owner. Only the array.
    """,
}

CODE = {
    "code-ring-buffer": """
        Write a complete Python module for a ring buffer of fixed capacity. It offers a class RingBuffer with the
        methods push, pop, peek, clear, extend, __len__, __iter__, __contains__ and __repr__; pushing onto a full
        buffer drops the oldest element and counts it in an attribute named dropped. Use type hints throughout, raise
        IndexError with a helpful message when an empty buffer is read, and give each public method a docstring with
        an example. Then write a second class, ThreadSafeRingBuffer, that wraps it with a lock and a blocking get with
        timeout, and finish with fifteen unit tests in the style of pytest. Answer with the code alone.
    """,
    "code-fix-parser": """
        The following function should read lines such as "name = value ; comment" into a dictionary, but it fails on
        empty lines, on values with an equals sign, on quoted semicolons and on repeated names: def parse(text):
        result = {}; for line in text.split("\\n"): key, value = line.split("="); result[key] = value.split(";")[0];
        return result. Explain each mistake in one sentence. Then write a corrected version in Python with type hints,
        a small exception class that carries the line number, and support for quoted values with escapes. After that,
        write twelve tests that cover every mistake you named and at least four more odd inputs.
    """,
    "code-http-cache": """
        Write a small HTTP cache in Go, using the standard library only. A type Cache stores responses by method and
        URL, honours Cache-Control with max-age, no-store and must-revalidate, keeps ETags and sends If-None-Match when
        an entry is stale, and limits its total size in bytes by dropping the entries that were used longest ago. It
        implements http.RoundTripper, so that it can be put into any client. Guard it against concurrent use. Show the
        complete source file with package clause and imports, comments on every exported name, and then a test file
        that starts an httptest server and checks hits, revalidation, expiry and eviction.
    """,
}

SQL = {
    "sql-library": """
        Design a PostgreSQL schema for a public library with branches, members, books, copies, loans, reservations and
        fines. Write the CREATE TABLE statements with primary keys, foreign keys, checks and sensible indexes. Then
        write fifteen queries, each under a comment line that says what it answers: among them the ten books lent most
        often in each branch last year, members whose loans are overdue by more than thirty days with the sum of their
        fines, copies that were never lent, the average time a reservation waits, the share of loans returned late by
        month, and the authors whose books are held by every branch. Use common table expressions where they help.
    """,
    "sql-shop-report": """
        A web shop keeps the tables customers(id, name, country, joined), orders(id, customer_id, placed_at, status),
        lines(order_id, product_id, pieces, unit_price) and products(id, name, category, cost). Write one SQL script
        for a monthly report in standard SQL: revenue, cost and margin by category; new against returning customers;
        the median order value by country; the three best products of each category with their share; customers who
        bought in each of the last six months; a cohort table by month of joining; and orders whose lines do not add up.
        Put a comment above each statement, give every column a readable alias, and sort each result.
    """,
    "sql-migration": """
        Write a migration in SQL that splits a wide table contacts(id, full_name, phone_1, phone_2, phone_3, street,
        city, postal_code, country, note, created_at) into people, phones, addresses and notes. Keep all data, drop
        empty values, make phones unique per person, and move the first non-empty phone into the role "main". Write
        the statements in order: new tables, data moves, constraints, indexes, a view named contacts that looks as the
        old table did, and triggers that let old programs insert through the view. Then write the statements that undo
        it all, and ten queries that prove that nothing was lost.
    """,
}

PROSE = {
    "prose-lighthouse": """
        Tell the story of a lighthouse keeper who, on the last evening before the lamp is switched to automatic
        operation, finds an entry in the logbook that is dated tomorrow and written in her own hand. Let the story be
        quiet and exact, with weather, tools, smells and the sound of the machinery; let a visitor arrive by boat at
        about a third of the way and leave before the end; never explain where the entry came from. Write about eight
        hundred words in the past tense, in the third person, in paragraphs of uneven length, without headings and
        without a moral at the end.
    """,
    "prose-essay-maps": """
        Write an essay of about eight hundred words on the question of what a map must leave out in order to be of use.
        Begin with a concrete scene and not with a definition. Bring in at least three fields in which people simplify
        on purpose, such as medicine, music and public transport, and treat one case in which the simplification did
        harm. Argue against yourself once, fairly. Vary the length of your sentences, avoid lists and headings, use no
        quotations, and close with an image that takes up the opening scene again without repeating its words.
    """,
    "prose-debate": """
        Write a dialogue between a botanist and a retired train driver who share a compartment on a night journey and
        fall into an argument on whether a city should let its abandoned railway yard grow wild or build homes on it.
        Both are clever, polite and stubborn, both change their minds on one point, and neither wins. Give them
        different ways of speaking. Put short descriptions of the passing landscape between the speeches. About nine
        hundred words; no narrator's opinion; let the last line be spoken by a third person who has been thought to be
        asleep all the while.
    """,
}
